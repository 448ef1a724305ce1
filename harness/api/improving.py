"""Improving in Python: better instructions, found by tournament and accepted by a gate."""

from collections.abc import Iterable
from typing import Unpack

from harness.api.archived import runs_parent
from harness.api.outside import AnyAgent, door, read_run_env
from harness.core.errors import NothingRankable, UsageError
from harness.core.improvements import Improvement, ImproveRules
from harness.core.progress import Clock, Progress, now
from harness.core.settings_sources import check_names
from harness.core.settings_types import CompareSettings
from harness.core.sync import in_step
from harness.formats.queries import Asked, make_queries
from harness.improving.ending import begin, improve_agent
from harness.improving.loop import Unfinished
from harness.improving.plan import TRAIN_PAIRS, plan_improvement, quote_improvement
from harness.pipeline.app_checks import loaded_agent
from harness.pipeline.comparing.resuming import settings_of_side
from harness.pipeline.proposing import Proposer


@door
async def improve(
    agent: AnyAgent,
    train: Asked | Iterable[Asked],
    *,
    gate: Asked | Iterable[Asked] | None = None,
    rules: ImproveRules | None = None,
    proposer: Proposer | None = None,
    progress: Progress | None = None,
    clock: Clock = now,
    **settings: Unpack[CompareSettings],
) -> Improvement:
    """Improve an agent's instructions on training queries, as `harness improve` does, and test the best on `gate`.

    Without `gate` half of the queries are held out. `proposer(parent, lessons, tried)` writes new texts in place of a
    model: it returns a list of mappings from parts to texts. The same call goes on with an improvement that was cut
    short, or returns its kept result; a proposer of another name begins anew. The files are in `improved/` of the
    result's `path`.
    Raises UsageError, Refused, CannotWrite, ArchiveLocked, ArchiveDamaged; NothingRankable where an endpoint ended it.
    """
    check_names(settings, CompareSettings.__annotations__)
    if not isinstance(rules := rules or ImproveRules(), ImproveRules):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UsageError(f"rules is a {type(rules).__name__}: give harness.ImproveRules, as ImproveRules(rounds=4)")
    runs_dir, run_env = runs_parent(settings.get("runs_dir")), read_run_env(progress, clock)
    plan = await plan_improvement(
        loaded_agent(agent),
        settings_of_side(settings, TRAIN_PAIRS, runs_dir),
        list(make_queries(train)),
        None if gate is None else list(make_queries(gate)),
        rules,
        run_env,
        proposer,
    )
    quote_improvement(plan)  # refuses a ceiling that the gate alone goes beyond
    try:
        return await improve_agent(plan, begin(plan, runs_dir, run_env), run_env)
    except Unfinished as exc:
        raise NothingRankable(str(exc)) from None


improve_sync = in_step(improve)
