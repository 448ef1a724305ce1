"""What a verdict cites: side, step and quote, each held against the transcripts that the judge was shown."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from harness.core.rankings import Citation
from harness.core.unicode import valid_unicode
from harness.transcripts.transcript import Transcript, path_text, plain_steps, plain_text

CITATION_NOTE = (
    "Give at least one citation for each remark of your analysis: `reason` is the remark's name, `side` A or B, "
    "`step` the number of a step that begins at the left margin, or null for the answer, `quote` words copied from "
    "there, with \u2026 for what you leave out. Each is checked by machine."
)
"""What a judge is told where citations are required."""

_MOST = 100
"""Citations of a verdict that are read."""
_LONGEST = 2000
_STEP = re.compile(r"^Step (\d+) \(", re.MULTILINE)
_BAR = re.compile(r"^ *\| ?", re.MULTILINE)
_LEAST, _LEAST_FRAGMENT = 2, 4
"""Letters and digits of a quotation, and of each fragment where it has several."""


def read_citations(said: Any, first: Transcript, second: Transcript) -> tuple[Citation, ...]:
    """Return what a reply's `citations` are, each found where it points to or not; what is no citation is not found."""
    if not isinstance(said, list) or not said:
        return ()
    from harness.evidence.claims import fold  # noqa: PLC0415 - most judges cite nothing

    places = {
        (side, step): fold(text)
        for side, transcript in (("A", first), ("B", second))
        for step, text in _places(transcript)
    }
    return tuple(_read(entry, places) for entry in cast("list[Any]", said)[:_MOST])


def uncited(reasons: Mapping[str, str], citations: Sequence[Citation]) -> list[str]:
    """Return the names of the reasons without a citation that was found."""
    cited = {citation.reason for citation in citations if citation.found}
    return [name for name, text in reasons.items() if text.strip() and name not in cited]


def citable(names: Sequence[str], first: Transcript, second: Transcript) -> list[str]:
    """Return the remarks (path_A, answer_B) on blocks that hold anything to cite."""
    sides = {"A": first, "B": second}
    held = {f"path_{side}": bool(_STEP.search(text.path)) for side, text in sides.items()}
    held |= {f"answer_{side}": any(map(str.isalnum, text.answer)) for side, text in sides.items()}
    return [name for name in names if held[name]]


def opening_words(names: Sequence[str], first: Transcript, second: Transcript) -> list[dict[str, Any]]:
    """Return for each remark a citation of the first words of what it is on, for a judge that measures all of it."""
    cited: list[dict[str, Any]] = []
    for name in citable(names, first, second):
        answer, *steps = _places(first if name.endswith("A") else second)
        step, text = steps[0] if name.startswith("path") else answer
        cited.append({"reason": name, "side": name[-1], "step": step, "quote": " ".join(text.split()[:8])})
    return cited


def _places(transcript: Transcript) -> Iterator[tuple[int | None, str]]:
    """Yield the answer, and each step by its number, without the bars before its lines."""
    path, answer, record = transcript.path, transcript.answer, transcript.record
    if record:  # an agent may have looked behind the transcript
        path = path_text(plain_steps(record.path), {}) if path else ""
        answer = f"{answer}\n{plain_text(record.answer)}" if answer else ""
    yield None, answer
    heads = list(_STEP.finditer(path))
    ends = [head.start() for head in heads[1:]] + [len(path)]
    for head, end in zip(heads, ends, strict=True):
        yield int(head[1]), _BAR.sub("", path[head.start() : end])


def _read(entry: Any, places: Mapping[tuple[str, int | None], str]) -> Citation:
    from harness.evidence.claims import fragments, holds  # noqa: PLC0415 - as above

    members: Mapping[str, Any] = cast("dict[str, Any]", entry) if isinstance(entry, dict) else {}
    reason, side, quote = (str(members.get(name, ""))[:_LONGEST] for name in ("reason", "side", "quote"))
    step, whole = members.get("step"), isinstance(members.get("quote"), str)
    is_step = step is None or (isinstance(step, int) and not isinstance(step, bool))
    place = places.get((side, step)) if is_step and "step" in members else None
    parts = fragments(quote)
    letters = [sum(map(str.isalnum, part)) for part in parts]
    long_enough = bool(parts) and min(letters) >= (_LEAST if len(parts) == 1 else _LEAST_FRAGMENT)
    return Citation(
        reason=valid_unicode(reason),
        side=valid_unicode(side),
        step=cast("int", step) if is_step else None,
        quote=valid_unicode(quote),
        found=whole and long_enough and place is not None and holds(place, parts),
    )
