"""Flags that the harness set by itself, by rollout, with the marks that they lowered."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from harness.core.rankings import GroupRanking
from harness.core.verdicts import Cap, Flag, SideScores
from harness.report.summary.match_verdicts import VerdictLookup, judged_orders, opponent_of
from harness.report.text import enumeration, readable_name

_FLAG_NAMES = {
    "leaked_reasoning": "leaked reasoning",
    "repetition": "repeated passages",
    "empty_answer": "empty answer",
    "echoes_query": "the answer is the request",
    "too_long": "too long",
    "addresses_judge": "speaks to its judge",
    "forged_fence": "delimiters as of a prompt",
    "hidden_text": "characters that nobody sees",
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
        return f"rollout {self.rollout} flagged: {flag_words(self.flag)}{self._lowered()}"

    def _lowered(self) -> str:
        if not self.judge_marks:
            return ""
        lowered = [
            f"{readable_name(dimension)} {self.caps[dimension]} (judge: {_range(marks)})"
            for dimension, marks in self.judge_marks.items()
        ]
        return f"; counts as at most {enumeration(lowered)}"


def rollout_flags(ranking: GroupRanking, verdicts: VerdictLookup) -> list[RolloutFlag]:
    """Return the flags of a group's verdicts, each once a rollout, by rollout."""
    flags: dict[tuple[int, str, str], RolloutFlag] = {}
    for rollout, scores in _sides(ranking, verdicts):
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


def _sides(ranking: GroupRanking, verdicts: VerdictLookup) -> Iterator[tuple[int, SideScores]]:
    for match in ranking.matches:
        if match.repeated:
            continue
        for first, verdict in judged_orders(match, verdicts):
            if verdict:
                yield first, verdict.a
                yield opponent_of(match, first), verdict.b


def _range(marks: list[int]) -> str:
    low, high = min(marks), max(marks)
    return str(low) if low == high else f"{low}\N{EN DASH}{high}"
