"""What rolling agents out and comparing them takes, before a run is made."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from harness.archive.reader import RunReader
from harness.comparison.libraries import check_libraries
from harness.core.errors import UsageError
from harness.core.wording import option
from harness.endpoints.costs import CostBounds, total_bounds
from harness.pipeline.comparing.plan import CompareOptions, check_offline, judging_of
from harness.pipeline.comparing.sides import SIDE_LABELS
from harness.pipeline.costs import judge_cost
from harness.pipeline.plan import JudgingPlan, Prepared
from harness.pipeline.quote import lending_fault
from harness.pipeline.run_environment import RunEnvironment

_LEAST_ROLLOUTS = 2
AnySide = Prepared | Path
"""A side of a comparison: an agent that is to be rolled out, or the folder of a run."""


@dataclass(frozen=True)
class RollOutQuote:
    """What rolling agents out and comparing them takes."""

    queries: int
    agent_runs: int
    judge_calls: tuple[int, int]
    """The fewest, where every rollout fails, and the most, repair turns aside."""
    agent_cost: CostBounds | None
    judge_cost: CostBounds | None
    """USD; None where a price is unknown."""
    places: tuple[tuple[str, str], ...]
    """The label of each side that is rolled out, and where it is asked: model@host."""
    judge: str
    judge_places: str
    rubric: str
    offline: bool

    @property
    def cost(self) -> CostBounds | None:
        """What all of it is taken to cost; None if any price is unknown."""
        return total_bounds(self.agent_cost, self.judge_cost)


def quote_roll_out(
    sides: Sequence[AnySide], queries: int, run_env: RunEnvironment, options: CompareOptions
) -> RollOutQuote:
    """Tell what comparing sides takes, some of which are agents. Raises UsageError for what cannot be compared."""
    check_libraries()
    agents = [(SIDE_LABELS[at], side) for at, side in enumerate(sides) if isinstance(side, Prepared)]
    with ExitStack() as opened:
        runs = [opened.enter_context(RunReader(side)) for side in sides if isinstance(side, Path)]
        judging = judging_of(runs, run_env.environ, options)[1] if runs else agents[0][1]
        calls = _most_calls(_samples(sides, runs), judging, options.pairs) * queries
    _check_agents(agents, judging, options)
    return RollOutQuote(
        queries=queries,
        agent_runs=sum(side.settings.n * queries for _, side in agents),
        judge_calls=(0, calls),
        agent_cost=_agents_cost(agents, queries),
        judge_cost=judge_cost(judging.settings, judging.judge, (0, calls)),
        places=tuple((label, side.agent.place) for label, side in agents),
        judge=judging.judge.model,
        judge_places=judging.judge.places,
        rubric=judging.rubric.name,
        offline=judging.judge.offline or any(side.agent.offline for _, side in agents),
    )


def _check_agents(agents: Sequence[tuple[str, Prepared]], judging: JudgingPlan, options: CompareOptions) -> None:
    """Refuse what the comparison would refuse once the agents have cost something."""
    embedded = [label for label, side in agents if side.agent.offline]
    check_offline(embedded, judging.judge, allowed=options.allow_offline)
    if fault := lending_fault(judging):
        raise fault
    for label, side in agents:
        if side.settings.n < _LEAST_ROLLOUTS:
            raise UsageError(
                f"{option('n', side.settings.n)}: side {label} would have no sample to compare, for rollout 0 is the "
                f"anchor; give at least {option('n', _LEAST_ROLLOUTS)}"
            )


def _samples(sides: Sequence[AnySide], runs: Sequence[RunReader]) -> list[int]:
    """Return the most samples that a query has on each side."""
    of_runs = iter([max((len(places) for places in run.index.rollouts.values()), default=0) for run in runs])
    return [side.settings.n - 1 if isinstance(side, Prepared) else next(of_runs) for side in sides]


def _most_calls(samples: Sequence[int], judging: JudgingPlan, pairs: int) -> int:
    """Return the most judge calls of a query: those of the samples' pairs and the anchors', in both orders."""
    met = sum(min(pairs, a * b) + 1 for a, b in combinations(samples, 2))
    return 2 * met * judging.settings.judge_repeats * len(judging.judge.members)


def _agents_cost(agents: Sequence[tuple[str, Prepared]], queries: int) -> CostBounds | None:
    whole: CostBounds | None = CostBounds(0, 0)
    for _, side in agents:
        whole = total_bounds(whole, side.agent_cost(queries))
    return whole
