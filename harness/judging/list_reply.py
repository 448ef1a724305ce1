"""A listwise judge's reply: the form asked for, and what is read from it.

ScoresById are matched by id alone: each trajectory exactly once, each score a number from 0 to 1. Nothing is clipped,
guessed or taken from the order of the reply.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, cast

from harness.core.unicode import valid_unicode
from harness.judging.reply import ReplyError, json_objects, strict_object

ScoresById = Mapping[str, tuple[float, str]]
"""Score and explanation, by id."""


def list_schema(ids: Sequence[str]) -> dict[str, Any]:
    """Return the reply's form as a strict JSON schema."""
    one = strict_object(
        {
            "trajectory_id": {"type": "string", "enum": list(ids)},
            "explanation": {"type": "string"},
            "score": {"type": "number", "minimum": 0, "maximum": 1},
        }
    )
    return strict_object({"scores": {"type": "array", "items": one}})


def read_scores(text: str, ids: Sequence[str]) -> ScoresById:
    """Read a reply, in whatever prose, code fence or `<think>` block it is wrapped.

    Raises ReplyError where it does not score each of `ids` exactly once, from 0 to 1.
    """
    try:
        objects = [o for o in json_objects(text) if "scores" in o]
    except RecursionError:
        raise ReplyError("its JSON is nested too deeply.") from None
    if not objects:
        raise ReplyError("it holds no JSON object with the scores.")
    if any(o != objects[0] for o in objects):
        raise ReplyError("it holds more than one JSON object with scores.")
    listed = objects[0]["scores"]
    if not isinstance(listed, list):
        raise ReplyError("`scores` must be a list.")
    return _matched([_entry(entry, ids) for entry in cast("list[Any]", listed)], ids)


def _matched(entries: Sequence[tuple[str, float, str]], ids: Sequence[str]) -> ScoresById:
    named = [id_ for id_, _, _ in entries]
    if doubled := sorted({id_ for id_ in named if named.count(id_) > 1}):
        raise ReplyError(f"trajectory_id {', '.join(doubled)} is scored more than once.")
    if missing := [id_ for id_ in ids if id_ not in named]:
        raise ReplyError(f"trajectory_id {', '.join(missing)} is not scored.")
    return {id_: (score, explanation) for id_, score, explanation in entries}


def _entry(entry: Any, ids: Sequence[str]) -> tuple[str, float, str]:
    if not isinstance(entry, dict):
        raise ReplyError("each of `scores` must be an object with trajectory_id, explanation and score.")
    members = cast("dict[str, Any]", entry)
    value = members.get("trajectory_id")
    id_ = str(value).strip()
    if isinstance(value, bool) or id_ not in ids:
        raise ReplyError(f"there is no trajectory_id {valid_unicode(id_)[:40]!r}; there are {', '.join(ids)}.")
    explanation = members.get("explanation")
    return id_, _score(members.get("score"), id_), valid_unicode(explanation) if isinstance(explanation, str) else ""


def _score(value: Any, id_: str) -> float:
    """Take 0.8 and "0.8"; anything else that is no number from 0 to 1 is an error, never clipped."""
    number: Decimal | None = None
    if isinstance(value, int | str | Decimal) and not isinstance(value, bool):
        try:
            number = Decimal(value)
        except InvalidOperation:
            number = None
    if number is None or not number.is_finite() or not 0 <= number <= 1:
        shown = "missing" if value is None else repr(str(value)[:40])
        raise ReplyError(f"the score of trajectory_id {id_} must be a number from 0 to 1; it is {shown}.")
    return float(number)
