"""The best answer of a group: which rollout's it is, and why; and what tells two rollouts apart."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from harness.core.cost import UNKNOWN, total_cost
from harness.core.errors import NothingRankable, as_spoken, counted, goes_on
from harness.core.rankings import GroupRanking, Match, Ranked
from harness.core.records import Group, Rollout, Usage
from harness.report.summary.match_verdicts import VerdictLookup, marks_of_sides
from harness.report.summary.why import dimension_leads, judge_sentence
from harness.report.summary.why_records import first_parting

_NEARLY = 0.99
"""Nothing is certain: a higher probability is not given in figures."""
_SHOWN = 60
_NONE_APART = "the judge told none of them apart"
_NO_VERDICTS = "verdicts could not be had"


@dataclass(frozen=True)
class Best:
    """The best answer of N, and what is known of it. `str(best)` is the answer as text."""

    answer: Any
    """A str, or the JSON value of a structured output."""
    p_best: float | None
    """Posterior probability that no other rollout is better. None if not judged, or if the judge saw no difference."""
    runner_up: Any
    """The second-best rollout's answer. None if not judged."""
    rollouts: tuple[Rollout, ...]
    """The group's, failed ones too, by index."""
    cost: float | None
    """USD for agent and judge together. None where a part of the price is unknown."""
    tokens: int | None
    """Tokens in and out, agent and judge together, as far as the endpoints say. None if they say none."""
    why: str
    """A sentence: why this answer."""
    judged: bool
    """Whether verdicts picked it. If not, it is the anchor's answer or, if the anchor failed, that of the first
    rollout that ended well."""
    index: int
    """The index of the rollout whose answer it is."""
    cost_at_least: float | None = None
    """USD of which it is known that they were spent, where `cost` is None; None where nothing is known."""

    def __repr__(self) -> str:
        """Say it in a line: the answer's beginning, how sure, why; not the rollouts in full."""
        answer = text if len(text := str(self)) <= _SHOWN else text[: _SHOWN - 1] + "…"
        return (
            f"<Best {answer!r}: rollout {self.index} of {len(self.rollouts)}, judged={self.judged}, "
            f"p_best={self.p_best}, cost={self.cost}, tokens={self.tokens}, why={self.why!r}>"
        )

    def __str__(self) -> str:
        """Return the answer as text; a structured one as JSON."""
        if isinstance(self.answer, str):
            return self.answer
        return json.dumps(self.answer, ensure_ascii=False, separators=(",", ":"))


def best_from(group: Group, ranking: GroupRanking | None, trouble: str | None = None) -> Best:
    """Return the best answer of a group; `trouble` says why verdicts are missing.

    The first place wins, else whoever is best with the highest probability; without a verdict the anchor, or the first
    that ended well. Raises NothingRankable, with the group, where no rollout ended well.
    """
    ok = [r for r in group.rollouts if r.status == "ok"]
    if not ok:
        causes = dict.fromkeys(r.failure.message for r in group.rollouts if r.failure)
        reason = "; ".join(list(causes)[:2]) or trouble or ""
        what = f"no rollout of {len(group.rollouts)} ended well" if group.rollouts else "no rollout was begun"
        error = NothingRankable(f"no best answer: {what}{reason and ': '}{reason}")
        error.group = group
        raise error
    order = _best_first(ok, ranking)
    winner = order[0] if order else ok[0]
    row = _row(ranking, winner)
    judged = bool(len(ok) > 1 and order and ranking and ranking.matches)
    trouble = re.sub("^it ", "the judge's reply ", trouble).removesuffix(".") if trouble else None
    told = _why_judged(group, ranking, winner, trouble) if judged and ranking else None
    why = told or _why_not_judged(group, ranking, winner, trouble)
    # a judge that failed may have been paid for some replies
    judged_for = ranking.judge_cost if ranking else UNKNOWN
    spent = total_cost([*(r.cost for r in group.rollouts), judged_for])
    usage = ranking.judge_usage if ranking else Usage()
    return Best(
        answer=read_answer(winner),
        p_best=row.p_best if row and judged else None,
        runner_up=read_answer(order[1]) if judged and order[1:] else None,
        rollouts=group.rollouts,
        cost=spent.usd,
        tokens=sum((r.usage for r in group.rollouts), usage).tokens,
        why=as_spoken(why),
        judged=judged,
        index=winner.index,
        cost_at_least=spent.at_least,
    )


def is_unranked(group: Group, ranking: GroupRanking | None) -> bool:
    """Return whether several rollouts ended well and nothing separates them, because verdicts are missing."""
    ok = [r for r in group.rollouts if r.status == "ok"]
    return len(ok) > 1 and not _best_first(ok, ranking)


def read_answer(rollout: Rollout) -> Any:
    """Return a rollout's answer: text, or the value of a structured one."""
    trajectory = rollout.trajectory
    return json.loads(trajectory.answer) if trajectory.answer_type == "json" else trajectory.answer


def _best_first(ok: Sequence[Rollout], ranking: GroupRanking | None) -> list[Rollout]:
    """Return the rollouts that verdicts separate, best first; none where nothing separates them."""
    rows = [(row, r) for r in ok if (row := _row(ranking, r))]
    placed = [(*row.order, r) for row, r in rows if row.rank is not None]
    likely = [(-row.p_best, r.index, r) for row, r in rows if row.p_best is not None]
    return [rollout for *_, rollout in sorted(placed or likely)]


def _row(ranking: GroupRanking | None, rollout: Rollout) -> Ranked | None:
    return next((row for row in ranking.rollouts if row.index == rollout.index), None) if ranking else None


def _why_judged(group: Group, ranking: GroupRanking, winner: Rollout, trouble: str | None) -> str:
    row, calls = _row(ranking, winner), counted((ranking.judged + ranking.reused), "judge call")
    saved = f", {ranking.saved_calls:,} saved by stopping early" if ranking.saved_calls else ""
    missing = len(ranking.failed_verdicts)
    verdicts = counted(missing, "verdict is", "verdicts are")
    left = f"; {verdicts} missing: {trouble or _NO_VERDICTS}" if missing else ""
    if row is None or row.p_best is None:
        same = len({r.trajectory.answer for r in group.rollouts if r.status == "ok"}) == 1
        told = "all answers are the same, and the judge told no path from another" if same else _NONE_APART
        return f"{_place(group, winner)}: {told}, so it is the first{left}"
    p_best = f"{row.p_best:.2f}" if row.p_best <= _NEARLY else f"above {_NEARLY}"
    return f"{_place(group, winner)} with probability {p_best} ({calls}{saved}){left}"


def _why_not_judged(group: Group, ranking: GroupRanking | None, winner: Rollout, trouble: str | None) -> str:
    notes = "; ".join(ranking.notes) if ranking else ""
    if sum(r.status == "ok" for r in group.rollouts) == 1:
        return f"{_place(group, winner)}: the only one that ended well"
    if (row := _row(ranking, winner)) and row.rank is not None:
        return f"{_place(group, winner)}: {notes or 'nothing tells them apart, so it is the first'}"
    whose = "the anchor's" if winner.role == "anchor" else "that of the first that ended well, for the anchor failed"
    reason = (trouble or notes or _NO_VERDICTS).removeprefix("not judged, ")
    return goes_on(f"not judged: {reason}", f"the answer of rollout {winner.index} is {whose}")


def _place(group: Group, winner: Rollout) -> str:
    return f"rollout {winner.index} is the best of {len(group.rollouts)}"


def pair_words(group: Group, match: Match, verdicts: VerdictLookup) -> list[str]:
    """Return why one of the two rollouts of a match is above the other, as `harness why` says it, a sentence each.

    They are seen from the match's `b`: "it". `verdicts` gives the verdict of a key.
    """
    it, other = ({r.index: r for r in group.rollouts}[index] for index in (match.b, match.a))
    lead = match.score_b - match.score_a
    won = f"It wins by {lead:.1f}" if lead > 0 else f"It loses by {-lead:.1f}" if lead < 0 else "A tie"
    leads = dimension_leads([*marks_of_sides(match, verdicts)])
    decided = [f"{each.name} {each.marks[1]:.1f} to {each.marks[0]:.1f}" for each in leads if each.decided]
    said = [judge_sentence(match, 1, rollout.index, verdicts) for rollout in (it, other)]
    words = [f"{won} of 10 points{': ' if decided else ''}{', '.join(decided)}."]
    words += [
        f"{who}: {told.text}" for who, told in zip(("The judge on it", "On the other"), said, strict=True) if told
    ]
    if parting := first_parting(it.trajectory.path, other.trajectory.path):
        calls = (f"{call.tool}({call.input or ''})" if call else "no further call" for call in (parting.a, parting.b))
        words.append("At tool call {}, it made {}, and the other {}.".format(parting.call, *calls))
    return words
