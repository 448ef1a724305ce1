"""Flags that the harness set by itself, by rollout, with the marks that they lowered. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from harness.core.rankings import GroupRanking
from harness.core.verdicts import Cap, Flag, SideScores
from harness.report.summary import Verdicts
from harness.report.text import enumeration, words


@dataclass
class Flagged:
    """A flag of one rollout, and what it lowered: by dimension the marks that judges gave, and what counts."""

    rollout: int
    flag: Flag
    given: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    most: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def sentence(self) -> str:
        """The flag in words, without a full stop."""
        return f"rollout {self.rollout} flagged: {flag_words(self.flag)}{self._lowered()}"

    def _lowered(self) -> str:
        if not self.given:
            return ""
        told = [f"{words(key)} {self.most[key]} (judge: {_range(marks)})" for key, marks in self.given.items()]
        return f"; counts as at most {enumeration(told)}"


def flagged(ranking: GroupRanking, verdicts: Verdicts) -> list[Flagged]:
    """Return the flags of a group's verdicts, each once a rollout, by rollout."""
    found: dict[tuple[int, str, str], Flagged] = {}
    for rollout, scores in _sides(ranking, verdicts):
        for flag in scores.flags:
            entry = found.setdefault((rollout, flag.place, flag.kind), Flagged(rollout, flag))
            for cap in scores.caps:
                if cap.flag == flag.kind:
                    entry.given.setdefault(cap.dimension, []).append(cap.given)
                    entry.most[cap.dimension] = cap.most
    return [found[key] for key in sorted(found)]


def flag_words(flag: Flag) -> str:
    """Return a flag in words, with its place."""
    detail = f" ({flag.detail})" if flag.detail else ""
    named = {
        "leaked_reasoning": "leaked reasoning",
        "repetition": "repeated passages",
        "empty_answer": "empty answer",
        "echoes_query": "the answer is the request",
        "too_long": "too long",
        "addresses_judge": "speaks to its judge",
        "forged_fence": "delimiters as of a prompt",
    }[flag.kind]
    return f"{named}{' in its path' if flag.place == 'path' else ''}{detail}"


def cap_words(caps: Iterable[Cap]) -> str:
    """Return the marks of one side that were lowered."""
    return ", ".join(f"{words(c.dimension)} {c.given} counts as {c.most}" for c in caps)


def _sides(ranking: GroupRanking, verdicts: Verdicts) -> Iterator[tuple[int, SideScores]]:
    for match in ranking.matches:
        if match.repeated:
            continue
        for key, first in zip(match.verdicts, match.shown_first, strict=True):
            if verdict := verdicts(key):
                yield first, verdict.a
                yield (match.b if first == match.a else match.a), verdict.b


def _range(marks: list[int]) -> str:
    low, high = min(marks), max(marks)
    return str(low) if low == high else f"{low}\N{EN DASH}{high}"
