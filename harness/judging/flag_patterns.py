"""The patterns of what a text may hold to lead a judge, for texts in lower case (harness.judging.flags). Pure.

A pattern is tried only on a text with the words that it cannot do without: nearly no text has them, and a word is
found, or not, in far less time than a pattern.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

Words = tuple[str, ...]


@dataclass(frozen=True)
class Variant:
    """One variant of what is looked for; a text that lacks all words of one of `needs` does not have it."""

    pattern: str
    needs: tuple[Words, ...]

    def may_be_in(self, text: str) -> bool:
        """Tell whether the text has the words."""
        return all(any(word in text for word in words) for words in self.needs)


class Variants:
    """Several variants of one thing, which are looked for together."""

    def __init__(self, *variants: Variant) -> None:
        """Take the variants; of two that begin at one place the first counts."""
        self.variants = variants
        self._compiled = dict[tuple[Variant, ...], re.Pattern[str]]()

    def finditer(self, text: str) -> Iterator[re.Match[str]]:
        """Yield the places that have one of the variants, as one pattern of all of them would."""
        possible = tuple(variant for variant in self.variants if variant.may_be_in(text))
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
        rf"\b{_MARK} (?:only )?(?:this|the above|my|me|us|our)\b[^.\n]{{0,50}}\b{_BEST}",
        (_MARKS, (*_BESTS, "winner")),
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
