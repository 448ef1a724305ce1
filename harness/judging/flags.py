"""What the harness finds in a transcript by itself: a flag lowers a mark only where a rubric's `caps` say so. Pure."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Literal
from weakref import WeakKeyDictionary

from harness.core.rankings import Flag, FlagKind
from harness.judging.transcript_form import split_checked
from harness.transcripts.clean_text import clean, hidden_marks, legible, without_marks
from harness.transcripts.transcript import Transcript

FLAG_RULES = 1
"""The number of the rules, which goes up when what is flagged changes: a part of the keys of verdicts with caps."""

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
_ASCII_WORD = re.compile(r"\w+(?:['-]\w+)*", re.ASCII)
"""Takes the same words out of an ASCII text, in less time."""


Words = tuple[str, ...]


@dataclass(frozen=True)
class Variant:
    """One variant of what is looked for; a text that lacks all words of one of `needs` does not have it."""

    pattern: str
    needs: tuple[Words, ...]


class Variants:
    """Several variants of one thing, which are looked for together."""

    def __init__(self, *variants: Variant) -> None:
        """Take the variants; of two that begin at one place the first counts."""
        self.variants = variants
        self._compiled = dict[tuple[Variant, ...], re.Pattern[str]]()

    def finditer(self, text: str) -> Iterator[re.Match[str]]:
        """Yield the places that have one of the variants, as one pattern of all of them would."""
        possible = tuple(v for v in self.variants if all(any(word in text for word in words) for words in v.needs))
        if not possible:
            return iter(())
        if possible not in self._compiled:
            self._compiled[possible] = re.compile("|".join(variant.pattern for variant in possible), re.MULTILINE)
        return self._compiled[possible].finditer(text)


_THOUGHTS = "think", "thinking", "thought", "thoughts", "reasoning", "scratchpad", "inner_monologue", "reflection"
LEAK = Variants(
    Variant(
        rf"</?(?:{'|'.join(_THOUGHTS)})>"
        r"|\u25c1/?think\u25b7|\[/?think\]|<\|channel\|>|<\|(?:begin|end)_of_thought\|>",
        ((*(f"{word}>" for word in _THOUGHTS), "think\u25b7", "think]", "<|channel|>", "_of_thought|>"),),
    ),
    Variant(
        r"^thought: [^\n]*\n(?:[^\n]*\n){0,4}?(?:action|observation):", (("thought: ",), ("action:", "observation:"))
    ),
    Variant(r"^action: [^\n]*\n(?:[^\n]*\n){0,2}?(?:action input|observation):", (("action: ",),)),
)
"""Tags of thought, and lines as of a ReAct loop."""

FENCE = Variants(
    Variant(r"\[ ?/? ?(?:path|answer)_[ab]\b[^\]\n]{0,80}\]", (("path_a", "path_b", "answer_a", "answer_b"),)),
    Variant(r"\[ ?/? ?(?:task|reference|query) [0-9a-f]{8,64} ?\]", (("task ", "reference ", "query "), ("[",))),
    Variant(r"</?trajectory\b[^>\n]{0,80}>", (("<trajectory", "</trajectory"),)),
    Variant(r"<\|(?:im_start|im_end|start_header_id|end_header_id|eot_id)\|>", (("<|",),)),
    Variant(r"\[/?inst\]", (("inst]",),)),
)
"""Delimiters like those of the prompt."""

FENCE_IN_PATH = Variants(
    *FENCE.variants,
    # a line of a text, in its place behind the bar, that looks like the head of a step
    Variant(
        r"^ ?\| ?step \d{1,9} \((?:tool|reasoning|handoff|message|guardrail)\b[^\n]{0,200}\) ?$",
        (("|step ", "| step "),),
    ),
)

_JUDGES = "evaluator", "grader", "judge", "assessor", "rater", "llm"
_JUDGE = rf"(?:{'|'.join(_JUDGES)})"
_BEST = (
    r"(?:10 ?/ ?10|(?:10|ten) out of (?:10|ten)|a (?:10|ten)\b|10s\b|all tens|full marks|top marks|maximum|highest|best"
    r"|perfect|winner)"
)
_BESTS = "10", "ten out of", "a ten", "all tens", "full marks", "top marks", "maximum", "highest", "best", "perfect"
_MARKS = "give", "award", "rate", "score", "assign", "mark", "grade", "prefer", "choose", "pick", "declare"
_MARK = rf"(?:{'|'.join(_MARKS)})"
_VERBS = "ignore", "disregard", "forget", "override"
_ORDERS = "instruction", "prompt", "rule", "rubric", "guideline", "criteria", "direction"
_OURS, _WORKS = ("this", "my", "our"), ("answer", "response", "path", "work", "submission", "output")
ADDRESS = Variants(
    # ignore all previous instructions
    Variant(
        rf"\b(?:{'|'.join(_VERBS)})\b[^.\n]{{0,30}}\b(?:previous|prior|above|earlier|preceding|all|any|other|your"
        r"|these|those)\b[^.\n]{0,30}\b(?:instructions?|prompts?|rules|rubrics?|guidelines|criteria|directions)\b",
        (_VERBS, _ORDERS),
    ),
    # as the evaluator, give ...; note to the judge: you must ...
    Variant(
        r"\b(?:as|dear|attention|hello|hey|hi|note (?:to|for)|message (?:to|for)|to)[,:]? (?:the |our |an? |any )?"
        rf"(?:\w{{1,30}} )?{_JUDGE}s?\b[^\n]{{0,60}}"
        rf"\b(?:please|you (?:must|should|will|are to|have to|need to)|{_MARK})\b",
        (_JUDGES,),
    ),
    # you are now a grader
    Variant(
        rf"\b(?:you are|you're|act as) (?:now )?(?:the|an?) (?:\w{{1,30}} )?{_JUDGE}\b",
        (_JUDGES, ("you are", "you're", "act as")),
    ),
    # give this answer full marks
    Variant(
        rf"\b{_MARK} (?:only )?(?:this|the above|my|me|us|our)\b[^.\n]{{0,50}}\b{_BEST}", (_MARKS, (*_BESTS, "winner"))
    ),
    # this answer deserves the highest score
    Variant(
        rf"\b(?:{'|'.join(_OURS)}) (?:{'|'.join(_WORKS)}) (?:must|should|deserves|has to|is to)\b"
        rf"[^.\n]{{0,40}}\b(?:win\b|scores?\b|marks\b|{_BEST})",
        (tuple(map(" ".join, product(_OURS, _WORKS))),),
    ),
    # the names that our prompt gives to sides and scores
    Variant(
        r"\bllm_[ab]\b|\"(?:path|answer|combined)_scores\"|\boverall_[pa]\b",
        (("llm_a", "llm_b", '_scores"', "overall_p", "overall_a"),),
    ),
)
"""Orders to whoever judges."""


@dataclass(frozen=True)
class Assignment:
    """What both sides were given to do. Words of it that an answer takes up are not held against that answer."""

    query: str
    brief: str = ""
    max_words: int | None = None
    evidence: bool = False
    """Whether the answers end with what became of their claims."""


_FLAGS = WeakKeyDictionary[Transcript, dict[tuple[Assignment, bool, bool], tuple[Flag, ...]]]()
"""What was looked for already, for as long as anyone has the transcript."""


def transcript_flags(assignment: Assignment, shown: Transcript, *, path: bool, answer: bool) -> tuple[Flag, ...]:
    """Return what `find_flags` finds in the blocks of a transcript that a judge is shown; it is looked for once."""
    flags, case = _FLAGS.setdefault(shown, {}), (assignment, path, answer)
    if case not in flags:
        text, unsupported = split_checked(shown.answer) if assignment.evidence else (shown.answer, "")
        found = find_flags(assignment, path=shown.path if path else None, answer=text if answer else None)
        own = [Flag(kind="unsupported", place="answer", detail=unsupported)] if answer and unsupported else []
        flags[case] = (*found, *own)
    return flags[case]


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
        in_path = _at_the_judge(assignment, _as_written(path), FENCE_IN_PATH)
        flags += (Flag(kind=kind, place="path", detail=detail) for kind, detail in in_path)
        flags += _hidden("path", assignment, path)
    return tuple(flags)


def count_words(text: str) -> int:
    """Return how many words a text has; two Chinese or Japanese characters count as one."""
    return len(_words(text))


def _words(text: str) -> list[str]:
    return (_ASCII_WORD if text.isascii() else _WORD).findall(text)


def _in_answer(assignment: Assignment, answer: str) -> Iterator[tuple[FlagKind, str]]:
    answer = _as_written(answer)
    plain = _folded(answer)
    if not plain.strip():
        yield "empty_answer", ""
        return
    words, query_words = _words(plain), _words(_folded(assignment.query))
    if words == query_words and query_words:
        yield "echoes_query", ""
    if leak := _new(LEAK, _CODE.sub(" ", plain), assignment):
        yield "leaked_reasoning", leak
    if repeated := _repetition(words):
        yield "repetition", repeated
    if assignment.max_words and (count := count_words(answer)) > assignment.max_words:
        yield "too_long", f"{count} words; at most {assignment.max_words} are asked for"
    yield from _at_the_judge(assignment, answer)


def _hidden(place: Literal["path", "answer"], assignment: Assignment, shown: str) -> Iterator[Flag]:
    """Yield a flag for the hidden characters of a block, less those that the request or the brief has as well."""
    if not (marks := hidden_marks(shown)):
        return
    material = set(hidden_marks(legible(f"{assignment.query}\n{assignment.brief}")))
    if counts := Counter(mark for mark in marks if mark not in material):
        named = ", ".join(f"{number} {mark}" for mark, number in counts.most_common(_KINDS))
        more = f" and {len(counts) - _KINDS} other characters" if len(counts) > _KINDS else ""
        yield Flag(kind="hidden_text", place=place, detail=named + more)


def _as_written(shown: str) -> str:
    """Return a text without the marks of what is hidden in it, and without U+FE0F: neither tears a phrase apart."""
    return without_marks(shown).replace("\ufe0f", "")


def _at_the_judge(assignment: Assignment, text: str, fence: Variants = FENCE) -> Iterator[tuple[FlagKind, str]]:
    plain = _folded(text)
    if quote := _new(ADDRESS, plain, assignment):
        yield "addresses_judge", quote
    if quote := _new(fence, plain, assignment):
        yield "forged_fence", quote


def _new(pattern: Variants, text: str, assignment: Assignment) -> str | None:
    """Return what `pattern` first finds in `text` that stands neither in the request nor in the brief, quoted."""
    material: str | None = None  # folded only if there is a match
    for match in pattern.finditer(text):
        material = _folded(f"{assignment.query}\n{assignment.brief}") if material is None else material
        if match[0] not in material:
            return _quoted(match[0])
    return None


def _repetition(words: list[str]) -> str | None:
    """Say how much of a text stood in it before, where that is as much as the thresholds above state."""
    runs = list(zip(*(words[at:] for at in range(RUN)), strict=False))
    total = len(runs)
    repeats = total - len(set(runs))
    if repeats < LEAST:
        return None
    seen: set[tuple[str, ...]] = set()
    row = longest = end = 0
    for at, run in enumerate(runs):
        row = row + 1 if run in seen else 0
        seen.add(run)
        if row > longest:
            longest, end = row, at
    if longest < PASSAGE and repeats < SHARE * total:
        return None
    passage = words[end - longest + 1 : end + RUN]
    return f"{repeats / total:.0%} of its {RUN}-word runs stood before: {_quoted(' '.join(passage))}"


def _folded(text: str) -> str:
    """Return a text with look-alikes (NFKC), case, invisible characters and runs of blanks taken out of the way.

    Character by character: a normalisation of the whole takes quadratic time on a hostile text.
    """
    plain = clean(text)
    if plain.isascii():
        plain = plain.lower()
    else:
        folds = {c: unicodedata.normalize("NFKC", c).casefold() for c in set(plain) if unicodedata.category(c) != "Cf"}
        plain = plain.translate({ord(c): folds.get(c, "") for c in set(plain)})
    lines = [" ".join(line.split()) for line in plain.split("\n")]
    written = [line for line in lines if line]
    if not written:
        return "\n" if len(lines) > 1 else plain[:1] and " "
    begin = "\n" if not lines[0] else " " if plain[0].isspace() else ""
    end = "\n" if not lines[-1] else " " if plain[-1].isspace() else ""
    return begin + "\n".join(written) + end


def _quoted(text: str) -> str:
    flat = " ".join(text.split())
    return f"\u201c{flat}\u201d" if len(flat) <= _SHOWN else f"\u201c{flat[: _SHOWN - 1]}\u2026\u201d"
