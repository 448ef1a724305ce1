"""Verdicts asked for while a group is still being rolled out: those that its tournament will need for certain.

They go through the cache of verdicts and into the ledger of the ranking, which so takes the same verdicts as if all had
been asked for at its end, and counts them as its own.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from random import Random

from anyio.abc import TaskGroup

from harness.core.errors import JudgeFailed, Refused, first_error
from harness.core.records import Group
from harness.core.tracebacks import start_child
from harness.judging.juror import PairLedger
from harness.judging.jury import PairJury
from harness.judging.prompt import Task
from harness.ranking.early_calls import sure_calls
from harness.ranking.registry import Entry
from harness.tournament.group import Entrants, Rules, briefed_rollout, classes_to_judge, entrants_of
from harness.transcripts.transcript import Transcript

_Call = tuple[tuple[int, int], int]
"""Two rollouts in the order in which they are shown, and which of the repeats it is."""


@dataclass
class EarlyVerdicts:
    """What is asked for beforehand of one group: `tasks` holds the calls that are under way."""

    jury: PairJury
    rules: Rules
    tasks: TaskGroup
    ledger: PairLedger = field(default_factory=PairLedger)
    texts: dict[int, Transcript] = field(default_factory=dict[int, Transcript])
    _asked: set[_Call] = field(default_factory=set[_Call])
    _error: Refused | JudgeFailed | None = None

    def prefetch(self, group: Group, pending: Collection[int]) -> None:
        """Ask for what is sure now that these rollouts of the group have ended; the `pending` ones are under way."""
        if not pending or self._error or not _is_brief_sure(group, pending, self.rules):
            return
        entrants = entrants_of(group, self.rules, self.texts)
        self.texts |= entrants.texts
        calls = set(product(_sure_orders(entrants, sorted(pending), self.rules), range(self.rules.repeats)))
        for call in sorted(calls - self._asked):
            self._asked.add(call)
            start_child(self.tasks, self._judge, call, entrants.task)

    def raise_error(self) -> None:
        """Raise what the judge turned a call down with."""
        if self._error:
            raise self._error

    async def _judge(self, call: _Call, task: Task) -> None:
        """Ask the jury; an error waits for the ranking, so that it does not end the rollouts that are under way."""
        (first, second), repeat = call
        try:
            await self.jury.hear(self.ledger, replace(task, repeat=repeat), self.texts[first], self.texts[second])
        except* (Refused, JudgeFailed) as errors:
            self._error = self._error or first_error(errors)


def _is_brief_sure(group: Group, pending: Collection[int], rules: Rules) -> bool:
    """Tell whether the judge will be told of the instructions that it is told of now: those of the first rollout."""
    if not rules.show_instructions:
        return True
    briefed = briefed_rollout(group)
    return briefed is not None and briefed.index < min(pending)


def _sure_orders(entrants: Entrants, pending: Sequence[int], rules: Rules) -> Iterator[tuple[int, int]]:
    """Yield the orders that are sure to be judged, whatever becomes of the `pending` rollouts.

    With --judge-when tied those of another class may still come in: a reward that cannot be told makes all classes one.
    """
    lineup = entrants.lineup
    if rules.sure or (rules.anchor_failed == "stop" and not lineup.anchor):
        return
    everyone, anchor = {r.index for r in lineup.ok}, lineup.anchor.index if lineup.anchor else None
    for members in classes_to_judge(lineup.ok, rules):
        here = anchor if anchor in members else None
        entry = Entry(members, here, rules.order, Random(0), rules.budget)  # what is drawn is not sure
        yield from sure_calls(rules.topology, entry, sorted({*pending} | (everyone - {*members})))
