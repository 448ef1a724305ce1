"""A match and its verdicts, from the side of one of its two rollouts, and the flags that the harness set by itself."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from harness.core.rankings import Cap, Flag, GroupRanking, Judged, Match, PairJudgment, SideScores
from harness.judging.citations import uncited
from harness.report.text import enumeration, readable_name

VerdictLookup = Callable[[str], Judged | None]
"""Returns the verdict with a key; None if the archive no longer has that verdict."""
ScoresLookup = Callable[[str], PairJudgment | None]
"""The same where the verdict's marks and words are not needed, nor read."""


MATCH_FLAGS = {
    "tie": "level scores; in the bracket the better seed goes on",
    "changed with order": "the two orders name opposite winners",
    "inconsistent": "one order names a winner, the other a tie",
    "met before": "the pair had met; its scores were used again",
    "answer cut": "an answer was too long for --judge-budget: the judge saw it without its middle",
}
"""The flags that a match may have, and what each means."""


def match_flags(match: Match) -> tuple[str, ...]:
    """Return the flags of a match: names in `MATCH_FLAGS`."""
    holds = (match.winner is None, match.flipped, match.inconsistent, match.repeated, match.cut)
    return tuple(name for name, held in zip(MATCH_FLAGS, holds, strict=True) if held)


def score_of(match: Match, entrant: int) -> float:
    """Return the mean score of one side of a match."""
    return match.score_a if match.a == entrant else match.score_b


def opponent_of(match: Match, entrant: int) -> int:
    """Return the other side of a match."""
    return match.b if match.a == entrant else match.a


def verdict_keys(matches: Iterable[Match]) -> Iterable[str]:
    """Return the keys of the verdicts of matches, each key once, in the order of the matches."""
    return dict.fromkeys(chain.from_iterable([match.verdicts for match in matches]))


def judged_orders(match: Match, verdicts: VerdictLookup) -> Iterator[tuple[int, Judged | None]]:
    """Yield the rollout that each order showed first, and the verdict of that order."""
    return zip(match.shown_first, map(verdicts, match.verdicts), strict=True)


def marks_of_sides(match: Match, verdicts: VerdictLookup) -> Iterator[tuple[SideScores, SideScores]]:
    """Yield the scores of the match's `a` and `b`, in this order, by each verdict that the archive has."""
    for first, verdict in judged_orders(match, verdicts):
        if verdict:
            yield (verdict.a, verdict.b) if first == match.a else (verdict.b, verdict.a)


CITES_NOTHING = "[cites what is not there]"
"""Behind a remark without a citation that was found, in a verdict that cites."""


def marked_remarks(verdict: Judged) -> dict[str, str]:
    """Return the remarks of a verdict by name, those that cite what is not there marked."""
    bare = bare_remarks(verdict)
    return {name: f"{text} {CITES_NOTHING}" if name in bare else text for name, text in verdict.analysis.items()}


def bare_remarks(verdict: Judged) -> list[str]:
    """Return the names of the remarks without a citation that was found; none of a verdict that cites nothing."""
    return uncited(reasons(verdict), verdict.citations) if verdict.citations else []


def reasons(verdict: Judged) -> dict[str, str]:
    """Return the remarks of a verdict that say something of a path or an answer."""
    on_a_block = ("path_", "answer_")
    return {name: text for name, text in verdict.analysis.items() if name.startswith(on_a_block) and text.strip()}


_FLAG_NAMES = {
    "leaked_reasoning": "leaked reasoning",
    "repetition": "repeated passages",
    "empty_answer": "empty answer",
    "echoes_query": "the answer is the request",
    "too_long": "too long",
    "addresses_judge": "speaks to its judge",
    "forged_fence": "delimiters as of a prompt",
    "hidden_text": "characters that nobody sees",
    "unsupported": "in no tool output",
}


@dataclass
class RolloutFlag:
    """A flag of one rollout, and what the flag lowered: by dimension, the judges' marks and the mark that counts."""

    rollout: int
    flag: Flag
    judge_marks: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    caps: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def sentence(self) -> str:
        """The flag in words, without a full stop."""
        lowered: list[str] = []
        for dimension, marks in self.judge_marks.items():
            low, high = min(marks), max(marks)
            given = f"{low}" if low == high else f"{low}\N{EN DASH}{high}"
            lowered.append(f"{readable_name(dimension)} {self.caps[dimension]} (judge: {given})")
        counts = f"; counts as at most {enumeration(lowered)}" if lowered else ""
        if self.flag.kind == "unsupported":
            verb = "stands" if self.flag.detail.count("\u201c") == 1 else "stand"
            return f"rollout {self.rollout}: {self.flag.detail} {verb} in no tool output{counts}"
        return f"rollout {self.rollout} flagged: {flag_words(self.flag)}{counts}"

    def as_json(self) -> dict[str, Any]:
        """Return the flag as JSON, and what the flag lowered."""
        return self.flag.model_dump(mode="json") | {"caps": self.caps, "judge_marks": self.judge_marks}


def rollout_flags(ranking: GroupRanking, verdicts: VerdictLookup) -> list[RolloutFlag]:
    """Return the flags of a group's verdicts, each once a rollout, by rollout."""
    flags: dict[tuple[int, str, str], RolloutFlag] = {}
    for rollout, scores in judged_sides(ranking, verdicts):
        for flag in scores.flags:
            entry = flags.setdefault((rollout, flag.place, flag.kind), RolloutFlag(rollout, flag))
            for cap in scores.caps:
                if cap.flag == flag.kind:
                    entry.judge_marks.setdefault(cap.dimension, []).append(cap.given)
                    entry.caps[cap.dimension] = cap.most
    return [flags[key] for key in sorted(flags)]


def flag_words(flag: Flag) -> str:
    """Return a flag in words, with its place."""
    detail = f" ({flag.detail})" if flag.detail else ""
    return f"{_FLAG_NAMES[flag.kind]}{' in its path' if flag.place == 'path' else ''}{detail}"


def cap_words(caps: Iterable[Cap]) -> str:
    """Return the marks of one side that were lowered."""
    return ", ".join(f"{readable_name(c.dimension)} {c.given} counts as {c.most}" for c in caps)


def judged_sides(ranking: GroupRanking, verdicts: VerdictLookup) -> Iterator[tuple[int, SideScores]]:
    """Yield each rollout that a verdict was on, and its scores; a match that rests on an earlier one counts once."""
    for match in ranking.matches:
        for a, b in () if match.repeated else marks_of_sides(match, verdicts):
            yield match.a, a
            yield match.b, b
