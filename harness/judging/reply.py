"""A judge's reply: the form asked for, and what is read from it.

Of a pair only the dimension marks are required: overalls, combined scores and the winner are recomputed, and claims to
the contrary recorded. Scores of a list are matched by id. Nothing is clipped, guessed or taken from the order.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any, Literal, cast

from pydantic import JsonValue

from harness.core.rankings import SideScores, Winner
from harness.core.unicode import valid_unicode
from harness.judging.rubric import Rubric

_OPENING = re.compile(r"\{|<(/?)think(?:ing)?>")
_THOUGHT_ENDS = re.compile(r"</think(?:ing)?>")
_LIKE_JSON = re.compile(r"\{\s*\"")
_STRING_OR_BRACE = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|[{}]', re.DOTALL)
_BLOCKS: tuple[tuple[Literal["path", "answer"], str, str], ...] = (
    ("path", "path_scores", "overall_p"),
    ("answer", "answer_scores", "overall_a"),
)
_SIDES = ("LLM_A", "LLM_B")


class ReplyError(ValueError):
    """The reply cannot be used; the message says why, in words that the judge can act on."""


@dataclass(frozen=True)
class PairReply:
    """What a usable reply says: both sides' scores, recomputed; the analysis; claims that do not fit the marks."""

    a: SideScores
    b: SideScores
    winner: Winner
    analysis: Mapping[str, str]
    claims: Mapping[str, JsonValue]
    citations: Any = None
    """What it says under that name."""


def example(rubric: Rubric) -> dict[str, Any]:
    """Return the reply's form as an example object, for the prompt."""
    parts: dict[str, Any] = {"analysis": dict.fromkeys(remark_names(rubric), "...")}
    for block, name, overall in _BLOCKS:
        if rubric.block(block):
            side = dict.fromkeys((*(d.key for d in rubric.block(block)), overall), 0)
            parts[name] = dict.fromkeys(_SIDES, side)
    cited = {"reason": next(iter(parts["analysis"])), "side": "A", "step": 1, "quote": "..."}
    parts |= {"citations": [cited]} if rubric.require_citations else {}
    return parts | {"combined_scores": dict.fromkeys(_SIDES, 0.0), "winner": "LLM_A | LLM_B | Tie"}


@lru_cache(maxsize=64)  # each call asks; it is only read
def schema(rubric: Rubric) -> dict[str, Any]:
    """Return the reply's form as a strict JSON schema, generated from the rubric."""
    mark: dict[str, Any] = {"type": "integer", "minimum": 0, "maximum": 10}
    parts: dict[str, Any] = {"analysis": strict_object({name: {"type": "string"} for name in remark_names(rubric)})}
    if rubric.require_citations:
        text, step = {"type": "string"}, {"type": ["integer", "null"]}
        cited = {
            "reason": {"type": "string", "enum": remark_names(rubric)},
            "side": {"type": "string", "enum": ["A", "B"]},
        }
        parts["citations"] = {"type": "array", "items": strict_object({**cited, "step": step, "quote": text})}
    for block, name, overall in _BLOCKS:
        if rubric.block(block):
            side = strict_object(dict.fromkeys((*(d.key for d in rubric.block(block)), overall), mark))
            parts[name] = strict_object(dict.fromkeys(_SIDES, side))
    parts["combined_scores"] = strict_object(dict.fromkeys(_SIDES, {"type": "number"}))
    parts["winner"] = {"type": "string", "enum": ["LLM_A", "LLM_B", "Tie"]}
    return strict_object(parts)


def read_reply(text: str, rubric: Rubric) -> PairReply:
    """Read a reply, in whatever it is wrapped. Raises ReplyError where it does not hold one usable set of marks."""
    try:
        reply = _only_object(text, [name for _, name, _ in _BLOCKS])
        a, b = (rubric.score(_marks(reply, rubric, side)) for side in _SIDES)
        winner = winning_side(a, b)
        said = reply.get("analysis")
        said_of = cast("dict[str, Any]", said) if isinstance(said, dict) else {}
        analysis = {valid_unicode(k): valid_unicode(str(v)) for k, v in said_of.items()}
        return PairReply(
            a=a,
            b=b,
            winner=winner,
            analysis=analysis,
            claims=_claims(reply, a, b, winner),
            citations=reply.get("citations"),
        )
    except RecursionError:
        raise ReplyError("its JSON is nested too deeply.") from None


def _only_object(text: str, names: Sequence[str]) -> dict[str, Any]:
    """Return the one object in a reply that has a member of those names."""
    objects = [o for o in json_objects(text) if any(name in o for name in names)]
    if not objects:
        raise ReplyError("it holds no JSON object with the scores." if text.strip() else "it is empty.")
    if any(o != objects[0] for o in objects):
        raise ReplyError("it holds more than one JSON object with scores.")
    return objects[0]


def winning_side(a: SideScores, b: SideScores) -> Winner:
    """Return the side with the higher combined score; equal is a tie."""
    return "tie" if a.combined == b.combined else "A" if a.combined > b.combined else "B"


def remark_names(rubric: Rubric) -> list[str]:
    """Return the names of the remarks that a judge is asked for."""
    return [f"{block}_{side}" for block, _, _ in _BLOCKS if rubric.block(block) for side in "AB"]


def strict_object(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of an object with just these properties, all of them required."""
    required = {"required": list(properties), "additionalProperties": False}
    return {"type": "object", "properties": dict(properties)} | required


def json_objects(text: str) -> list[dict[str, Any]]:
    """Return the outermost JSON objects outside of thoughts, none from inside of another, though that be broken."""
    decoder = json.JSONDecoder(parse_constant=_no_constant, parse_float=Decimal, object_pairs_hook=_once)
    objects: list[dict[str, Any]] = []
    at = _OPENING.search(text)
    while at:
        end = at.end()
        if at[0] == "{":
            try:
                value, end = decoder.raw_decode(text, at.start())
                objects.append(value)
            except (ValueError, ArithmeticError, RecursionError):  # ArithmeticError: an exponent past all bounds
                end = _behind(text, at.start())
        elif at[1]:
            objects.clear()  # it was all thought: some endpoints open the block before the reply begins
        else:
            closing = _THOUGHT_ENDS.search(text, end)
            end = closing.end() if closing else len(text)
        at = _OPENING.search(text, end)
    return objects


def _behind(text: str, at: int) -> int:
    """Return where to look on after a brace that opens no JSON: behind all that it encloses, if it looks like JSON."""
    if not _LIKE_JSON.match(text, at):
        return at + 1
    depth = 0
    for token in _STRING_OR_BRACE.finditer(text, at):
        depth += {"{": 1, "}": -1}.get(token[0], 0)
        if depth == 0:
            return token.end()
    return len(text)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if any(members[key] != value for key, value in pairs):
        raise ValueError("a key stands twice, with two values")
    return members


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


def _marks(reply: Mapping[str, Any], rubric: Rubric, side: str) -> dict[str, int]:
    """Take 8, 8.0 and "8" for eight; anything else that is no integer 0..10 is an error, never clipped or rounded."""
    marks: dict[str, int] = {}
    for block, name, _ in _BLOCKS:
        for dimension in rubric.block(block):
            value, where = _dig(reply, name, side, dimension.key), f"{name}.{side}.{dimension.key}"
            if value is None:
                raise ReplyError(f"{where} is missing.")
            number = _number(value)
            if number is None or number != int(number) or not 0 <= number <= 10:
                raise ReplyError(f"{where} must be an integer from 0 to 10, not {str(value)[:40]!r}.")
            marks[dimension.key] = int(number)
    return marks


def _dig(value: Any, *keys: str) -> Any:
    for key in keys:
        value = cast("Any", value).get(key) if isinstance(value, dict) else None
    return value


def _number(value: Any) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | str | Decimal):
        return None
    try:
        number = Decimal(value)
    except InvalidOperation:
        return None
    return number if number.is_finite() and -1000 < number < 1000 else None


def _claims(reply: Mapping[str, Any], a: SideScores, b: SideScores, winner: Winner) -> dict[str, JsonValue]:
    """Return the judge's own overalls, combined scores and winner where they differ from the recomputed ones."""
    computed: dict[tuple[str, ...], Any] = {("winner",): {"A": "LLM_A", "B": "LLM_B", "tie": "Tie"}[winner]}
    for side, scores in zip(_SIDES, (a, b), strict=True):
        computed["path_scores", side, "overall_p"] = scores.path
        computed["answer_scores", side, "overall_a"] = scores.answer
        computed["combined_scores", side] = scores.combined
    claims: dict[str, JsonValue] = {}
    for keys, ours in computed.items():
        claim = _dig(reply, *keys)
        same = claim == ours if isinstance(ours, str | None) else _number(claim) == Decimal(str(ours))
        if claim is not None and not same:
            claims[".".join(keys)] = json.loads(valid_unicode(json.dumps(claim, default=_plain, ensure_ascii=False)))
    return claims


def _plain(number: Decimal) -> float | str:
    return float(number) if math.isfinite(float(number)) else str(number)


ScoresById = Mapping[str, tuple[float, str]]
"""Score and explanation, by id."""


def list_schema(ids: Sequence[str]) -> dict[str, Any]:
    """Return the reply's form as a strict JSON schema."""
    score, id_ = {"type": "number", "minimum": 0, "maximum": 1}, {"type": "string", "enum": list(ids)}
    one = strict_object({"trajectory_id": id_, "explanation": {"type": "string"}, "score": score})
    return strict_object({"scores": {"type": "array", "items": one}})


def read_scores(text: str, ids: Sequence[str]) -> ScoresById:
    """Read a reply, in whatever it is wrapped. Raises ReplyError unless it scores each of `ids` once, from 0 to 1."""
    try:
        listed = _only_object(text, ["scores"])["scores"]
    except RecursionError:
        raise ReplyError("its JSON is nested too deeply.") from None
    if not isinstance(listed, list):
        raise ReplyError("`scores` must be a list.")
    entries = [_list_entry(entry, ids) for entry in cast("list[Any]", listed)]
    named = [id_ for id_, _, _ in entries]
    if doubled := sorted({id_ for id_ in named if named.count(id_) > 1}):
        raise ReplyError(f"trajectory_id {', '.join(doubled)} is scored more than once.")
    if missing := [id_ for id_ in ids if id_ not in named]:
        raise ReplyError(f"trajectory_id {', '.join(missing)} is not scored.")
    return {id_: (score, explanation) for id_, score, explanation in entries}


def _list_entry(entry: Any, ids: Sequence[str]) -> tuple[str, float, str]:
    if not isinstance(entry, dict):
        raise ReplyError("each of `scores` must be an object with trajectory_id, explanation and score.")
    members = cast("dict[str, Any]", entry)
    value = members.get("trajectory_id")
    id_ = str(value).strip()
    if isinstance(value, bool) or id_ not in ids:
        raise ReplyError(f"there is no trajectory_id {valid_unicode(id_)[:40]!r}; there are {', '.join(ids)}.")
    explanation, score = members.get("explanation"), members.get("score")
    number = _number(score)  # 0.8 and "0.8"; anything else is an error, never clipped
    if number is None or not 0 <= number <= 1:
        shown = "missing" if score is None else repr(str(score)[:40])
        raise ReplyError(f"the score of trajectory_id {id_} must be a number from 0 to 1; it is {shown}.")
    return id_, float(number), valid_unicode(explanation) if isinstance(explanation, str) else ""
