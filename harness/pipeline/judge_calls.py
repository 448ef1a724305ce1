"""How many judge calls a ranking takes, told to its watcher as it goes on."""

from dataclasses import dataclass

from harness.core.progress import Progress
from harness.core.rankings import GroupRanking
from harness.core.records import Group
from harness.tournament.ranker import Ranker


@dataclass(frozen=True)
class Size:
    """How many queries are ranked (None: nobody knows yet), and how many rollouts of one may have ended well."""

    queries: int | None
    rollouts: int


@dataclass
class JudgeCalls:
    """The judge calls of a ranking: those of the queries that are ranked, and at most so many for the others."""

    progress: Progress
    ranker: Ranker
    size: Size
    free: bool = False
    begun: int = 0
    made: int = 0
    under_way: int = 0
    """At most so many for the queries that are being ranked."""

    def report(self) -> None:
        """Report the bounds to the watcher."""
        if self.free:
            self.progress.total("judging", 0, 0)
        elif self.size.queries is None:
            self.progress.total("judging", self.made, None)
        else:
            open_calls = (self.size.queries - self.begun) * self._most(self.size.rollouts)
            self.progress.total("judging", self.made, self.made + self.under_way + open_calls)

    def begin(self, group: Group) -> int:
        """Count a query whose rollouts are there; return how many calls it takes at most."""
        self.begun += 1
        ok = sum(rollout.status == "ok" for rollout in group.rollouts)
        most = min(self._most(ok), self._most(self.size.rollouts))
        self.under_way += most
        self.report()
        return most

    def end(self, most: int, ranking: GroupRanking | None = None) -> None:
        """Count what the ranking of a query took, for which `begin` gave `most`; None if the judge turned it down."""
        self.under_way -= most
        if ranking:
            failed = len(ranking.failed_verdicts) + len(ranking.absent_verdicts)
            self.made += min(most, ranking.judged + failed)
        self.report()

    def leave(self, made: int) -> None:
        """Count a query that is not ranked, for which so many calls were made."""
        self.begun += 1
        self.made += made
        self.report()

    def learn(self, queries: int) -> None:
        """Learn how many queries there are."""
        self.size = Size(queries, self.size.rollouts)
        self.report()

    def _most(self, rollouts: int) -> int:
        return self.ranker.call_bounds(rollouts)[1] if rollouts else 0
