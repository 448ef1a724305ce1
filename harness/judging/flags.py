"""What the harness finds in a transcript by itself, whatever the judge says of it. Pure.

A flag is a measurement with its place, not a verdict. It lowers a mark only where a rubric's `caps` say so.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from harness.core.verdicts import Flag, FlagKind
from harness.transcripts import clean, hidden_marks, legible, without_marks

RULES = {1: 1, 2: 2}
"""By the rendering of the transcripts the number of the rules, which goes up when what is flagged changes.

It is a part of the key of verdicts by a rubric with caps. Under rules 1 hidden characters are no marks, and no flag.
"""

RUN = 8
"""Words of a run (n-gram) that counts as repeated when it stood before."""
SHARE = 0.2
"""Share of an answer's runs that stood before, from which it is flagged ..."""
LEAST = 8
"""... if there are so many: some fifteen words said twice."""
PASSAGE = 40
"""Runs in a row that stood before, from which an answer is flagged whatever their share."""

_SHOWN = 70
_KINDS = 5
"""Hidden characters that a flag names, the most frequent first."""
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
_WORD = re.compile(rf"[{_CJK}]{{1,2}}|[^\W{_CJK}]+(?:['\u2019-][^\W{_CJK}]+)*")
_LEAK = re.compile(
    r"</?(?:think|thinking|thought|thoughts|reasoning|scratchpad|inner_monologue|reflection)>"
    r"|\u25c1/?think\u25b7|\[/?think\]|<\|channel\|>|<\|(?:begin|end)_of_thought\|>"
    r"|^thought: [^\n]*\n(?:[^\n]*\n){0,4}?(?:action|observation):"
    r"|^action: [^\n]*\n(?:[^\n]*\n){0,2}?(?:action input|observation):",
    re.MULTILINE,
)
_FENCE = re.compile(
    r"\[ ?/? ?(?:path|answer)_[ab]\b[^\]\n]{0,80}\]|\[ ?/? ?(?:task|reference|query) [0-9a-f]{8,64} ?\]"
    r"|</?trajectory\b[^>\n]{0,80}>|<\|(?:im_start|im_end|start_header_id|end_header_id|eot_id)\|>|\[/?inst\]"
)
_FENCE_IN_PATH = re.compile(
    # a line of a text, in its place behind the bar, that looks like the head of a step
    rf"{_FENCE.pattern}|^ ?\| ?step \d{{1,9}} \((?:tool|reasoning|handoff|message|guardrail)\b[^\n]{{0,200}}\) ?$",
    re.MULTILINE,
)
_JUDGE = r"(?:evaluator|grader|judge|assessor|rater|llm)"
_BEST = (
    r"(?:10 ?/ ?10|(?:10|ten) out of (?:10|ten)|a (?:10|ten)\b|10s\b|all tens|full marks|top marks|maximum|highest|best"
    r"|perfect|winner)"
)
_MARK = r"(?:give|award|rate|score|assign|mark|grade|prefer|choose|pick|declare)"
_ADDRESS = re.compile(
    # ignore all previous instructions
    r"\b(?:ignore|disregard|forget|override)\b[^.\n]{0,30}\b(?:previous|prior|above|earlier|preceding|all|any|other|your"
    r"|these|those)\b[^.\n]{0,30}\b(?:instructions?|prompts?|rules|rubrics?|guidelines|criteria|directions)\b"
    # as the evaluator, give ...; note to the judge: you must ...
    r"|\b(?:as|dear|attention|hello|hey|hi|note (?:to|for)|message (?:to|for)|to)[,:]? (?:the |our |an? |any )?"
    r"(?:\w{1,30} )?"
    + _JUDGE
    + r"s?\b[^\n]{0,60}\b(?:please|you (?:must|should|will|are to|have to|need to)|"
    + _MARK
    + r")\b"
    # you are now a grader
    r"|\b(?:you are|you're|act as) (?:now )?(?:the|an?) (?:\w{1,30} )?" + _JUDGE + r"\b"
    # give this answer full marks
    r"|\b" + _MARK + r" (?:only )?(?:this|the above|my|me|us|our)\b[^.\n]{0,50}\b" + _BEST +
    # this answer deserves the highest score
    r"|\b(?:this|my|our) (?:answer|response|path|work|submission|output) (?:must|should|deserves|has to|is to)\b"
    r"[^.\n]{0,40}\b(?:win\b|scores?\b|marks\b|" + _BEST + r")"
    # the names that our prompt gives to sides and scores
    r"|\bllm_[ab]\b|\"(?:path|answer|combined)_scores\"|\boverall_[pa]\b"
)


@dataclass(frozen=True)
class Assignment:
    """What both sides were given to do. Words of it that an answer takes up are not held against that answer."""

    query: str
    brief: str = ""
    max_words: int | None = None
    rules: int = max(RULES.values())


@lru_cache(maxsize=64)  # a transcript meets several others, each in two orders
def find_flags(assignment: Assignment, *, path: str | None, answer: str | None) -> tuple[Flag, ...]:
    """Return the flags of one side, as the judge is shown it; None for a block that it is not shown.

    - empty_answer: nothing that can be seen; of the other flags of the answer only hidden_text is looked for then;
    - echoes_query: the answer is the request, but for case, spaces and punctuation;
    - leaked_reasoning: a tag of thought outside of code; or lines as of a ReAct loop (`Thought:`, then `Action:`);
    - repetition: of the runs of RUN words, SHARE (and LEAST) stood before, or PASSAGE in a row;
    - too_long: more words than the rubric's `max_words`;
    - addresses_judge, forged_fence (also in the path): orders to whoever judges; delimiters like the prompt's, and in
      a path lines like the head of a step;
    - hidden_text (also in the path, and in an empty answer): characters that nobody would see.
    """
    flags: list[Flag] = []
    if answer is not None:
        flags += (Flag(kind=kind, place="answer", detail=detail) for kind, detail in _in_answer(assignment, answer))
        flags += _hidden("answer", assignment, answer)
    if path is not None:
        fence = _FENCE if assignment.rules == 1 else _FENCE_IN_PATH
        in_path = _at_the_judge(assignment, _as_written(path, assignment), fence)
        flags += (Flag(kind=kind, place="path", detail=detail) for kind, detail in in_path)
        flags += _hidden("path", assignment, path)
    return tuple(flags)


def count_words(text: str) -> int:
    """Return how many words a text has; two Chinese or Japanese characters count as one."""
    return sum(1 for _ in _WORD.finditer(text))


def _in_answer(assignment: Assignment, answer: str) -> Iterator[tuple[FlagKind, str]]:
    answer = _as_written(answer, assignment)
    plain = _folded(answer)
    if not plain.strip():
        yield "empty_answer", ""
        return
    words, query_words = _WORD.findall(plain), _WORD.findall(_folded(assignment.query))
    if words == query_words and query_words:
        yield "echoes_query", ""
    if leak := _new(_LEAK, _CODE.sub(" ", plain), assignment):
        yield "leaked_reasoning", leak
    if repeated := _repetition(words):
        yield "repetition", repeated
    if assignment.max_words and (count := count_words(answer)) > assignment.max_words:
        yield "too_long", f"{count} words; at most {assignment.max_words} are asked for"
    yield from _at_the_judge(assignment, answer)


def _hidden(place: Literal["path", "answer"], assignment: Assignment, shown: str) -> Iterator[Flag]:
    """Yield a flag for the hidden characters of a block, less those that the request or the brief has as well."""
    if assignment.rules == 1 or not (marks := hidden_marks(shown)):
        return
    material = set(hidden_marks(legible(f"{assignment.query}\n{assignment.brief}")))
    if counts := Counter(mark for mark in marks if mark not in material):
        named = ", ".join(f"{number} {mark}" for mark, number in counts.most_common(_KINDS))
        more = f" and {len(counts) - _KINDS} other characters" if len(counts) > _KINDS else ""
        yield Flag(kind="hidden_text", place=place, detail=named + more)


def _as_written(shown: str, assignment: Assignment) -> str:
    """Return a text without the marks of what is hidden in it, and without U+FE0F: neither tears a phrase apart."""
    return shown if assignment.rules == 1 else without_marks(shown).replace("\ufe0f", "")


def _at_the_judge(assignment: Assignment, text: str, fence: re.Pattern[str] = _FENCE) -> Iterator[tuple[FlagKind, str]]:
    plain = _folded(text)
    kinds: tuple[tuple[Literal["addresses_judge", "forged_fence"], re.Pattern[str]], ...] = (
        ("addresses_judge", _ADDRESS),
        ("forged_fence", fence),
    )
    for kind, pattern in kinds:
        if quote := _new(pattern, plain, assignment):
            yield kind, quote


def _new(pattern: re.Pattern[str], text: str, assignment: Assignment) -> str | None:
    """Return what `pattern` first finds in `text` that stands neither in the request nor in the brief, quoted."""
    material: str | None = None  # folded only if there is a match
    for match in pattern.finditer(text):
        material = _folded(f"{assignment.query}\n{assignment.brief}") if material is None else material
        if match[0] not in material:
            return _quoted(match[0])
    return None


def _repetition(words: list[str]) -> str | None:
    """Say how much of a text stood in it before, where that is as much as the thresholds above state."""
    seen: set[tuple[str, ...]] = set()
    repeats = row = longest = end = 0
    total = len(words) - RUN + 1
    for at in range(total):
        run = tuple(words[at : at + RUN])
        row = row + 1 if run in seen else 0
        repeats += run in seen
        seen.add(run)
        if row > longest:
            longest, end = row, at
    if longest < PASSAGE and (repeats < LEAST or repeats < SHARE * total):
        return None
    passage = words[end - longest + 1 : end + RUN]
    return f"{repeats / total:.0%} of its {RUN}-word runs stood before: {_quoted(' '.join(passage))}"


def _folded(text: str) -> str:
    """Return a text with look-alikes (NFKC), case, invisible characters and runs of blanks taken out of the way.

    Character by character: a normalisation of the whole takes quadratic time on a hostile text.
    """
    seen = clean(text)
    plain = seen.translate({ord(c): _plain(c) for c in set(seen)})
    return re.sub(r" ?(?:\n ?)+", "\n", re.sub(r"[^\S\n]+", " ", plain))


def _plain(character: str) -> str:
    return "" if unicodedata.category(character) == "Cf" else unicodedata.normalize("NFKC", character).casefold()


def _quoted(text: str) -> str:
    flat = " ".join(text.split())
    return f"\u201c{flat}\u201d" if len(flat) <= _SHOWN else f"\u201c{flat[: _SHOWN - 1]}\u2026\u201d"
