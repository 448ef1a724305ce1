"""A training loop without a framework: rollouts of a policy as an async iterator of judged groups, token-exact.

The run's own pipeline rolls out and judges; here is what it hands its groups to. What is written of a group says what
became of it: its ranking is in the archive once the trainer has taken the group, or once it was skipped for good.
"""

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, Self, Unpack, cast

from harness.api import policy_records
from harness.api.archived import AnyRun, find_folder
from harness.api.outage import JUDGE_BUSY_S, OUTAGE, JudgeOutage, refuse_part
from harness.api.outside import AnyAgent, door_at_once, failures_of_missing, read_run_env
from harness.archive.reader import RunReader
from harness.archive.result_files import RankingFile
from harness.core import errors
from harness.core.progress import Clock, Progress, now
from harness.core.rankings import GroupRanking
from harness.core.records import Group, Query
from harness.core.settings import Settings
from harness.core.settings_sources import changed, load
from harness.core.settings_types import ResumeSettings, RunSettings
from harness.formats.queries import Asked, make_queries
from harness.formats.training.candidates import Losses, RankedGroup, TurnsOf
from harness.pipeline.app_checks import loaded_agent
from harness.pipeline.exporting.export import turns_from
from harness.pipeline.plan import NamedAddresses, prepare
from harness.pipeline.rank_groups import OpenRanking
from harness.pipeline.run_environment import RunEnvironment
from harness.pipeline.runs import resume_run, run_queries
from harness.report.summary.course import newest_version
from harness.rollouts.loading import LoadedAgent

_SAMPLED_ALIKE = 1.0
"""The temperature unless another is named: a trainer computes probabilities at this one."""


class PolicyVersion:
    """The version of the policy now, which never goes back."""

    def __init__(self, told: int | Callable[[], int]) -> None:
        """Read it for the first time. Raises UsageError for what is no version."""
        self._tell = told if callable(told) else lambda: told
        self.is_fixed = not callable(told)
        self._newest, self._fault = 0, None
        self.check()

    def __call__(self) -> int:
        """Return the newest version; `check` raises what was wrong with one that is none."""
        try:
            version = self._tell()
            self.refuse_before(version, self._newest, "was told before")
            self._newest = version
        except Exception as exc:  # noqa: BLE001 - a function of the user's; a call under way must not fail of it
            self._fault = exc
        return self._newest

    def check(self) -> int:
        """Return the version. Raises UsageError where one went back or is none."""
        version = self()
        if self._fault:
            raise self._fault
        return version

    @staticmethod
    def refuse_before(version: int, known: int, where: str) -> None:
        """Raise UsageError for what is no version, and for one that is older than one that is `known`."""
        if type(version) is not int or version < 0:
            raise errors.UsageError(
                f"policy_version {errors.quoted(version)}: give a whole number, at least 0, or a function"
            )
        if version < known:
            raise errors.UsageError(
                f"policy_version went back to {version}, and {known} {where}: rollouts of weights that are "
                f"gone would be trained; go on from the trainer's checkpoint of version {known} or later, or begin a "
                f"new run (without {errors.option('resume')})"
            )


@dataclass
class _Ready:
    """A group that waits for the trainer."""

    group: Group
    ranking: GroupRanking
    rollouts: tuple[policy_records.PolicyRollout, ...]
    write: Callable[[], object]
    """Writes the ranking down: from then on the group is not handed out any more."""
    over: asyncio.Event = field(default_factory=asyncio.Event)


class PolicyGroups:
    """The groups of a training, as they are rolled out and judged. `async with` ends what is under way at its end.

    A further group begins only as far ahead as the rules let it.
    """

    def __init__(
        self, version: PolicyVersion, rules: policy_records.GroupRules, settings: Settings, outage: JudgeOutage
    ) -> None:
        """Nothing begins before the first group is asked for."""
        self._version, self._rules, self._settings, self._outage = version, rules, settings, outage
        self.work: Callable[[], Coroutine[Any, Any, None]]
        """Rolls out and judges, and hands the groups to `take`."""
        self.folder: Path | None = None
        """The run's folder, once there is one."""
        self.skipped = Counter[str]()
        """How many groups were skipped, by the reason."""
        self.handed_out, self._spent, self._in_a_row = 0, 0.0, 0
        self._task: asyncio.Task[None] | None = None
        self._ready = deque[_Ready]()
        self._before: Mapping[str, RankingFile] = {}
        self._open, self._taken, self._at, self._is_waited_for = 0, 0, -1, False
        self._changed = asyncio.Event()
        self._turns: TurnsOf | None = None

    @property
    def figures(self) -> dict[str, float]:
        """What a trainer logs: groups handed out and skipped, USD spent, and USD a group handed out.

        A price that is not known is not in them.
        """
        skipped = {f"rollouts/skipped/{why}": float(times) for why, times in self.skipped.items()}
        per_group = {"rollouts/usd_per_group": self._spent / self.handed_out} if self.handed_out else {}
        return {"rollouts/handed_out": float(self.handed_out), "rollouts/usd": self._spent, **per_group, **skipped}

    def go_on_from(self, folder: Path) -> None:
        """Leave out what a run has handed out. Raises UsageError where the policy is older than the run's."""
        with RunReader(folder) as reader:
            rankings = reader.rankings()
            self._before = {group.query: ranking for ranking in rankings for group in ranking.groups}
            newest = (newest_version(reader.group(query).rollouts) for query in reader.queries())
            known = max((version for version in newest if version is not None), default=0)
        self._version.refuse_before(self._version.check(), known, f"is in run {folder.name}")

    def __aiter__(self) -> Self:
        """Return itself."""
        return self

    async def __anext__(self) -> policy_records.PolicyGroup:
        """Return the next group. Raises what ended the run, as `rollout_groups` says."""
        with errors.from_python():
            if self._task is None:
                self._task = asyncio.create_task(self.work())
                self._task.add_done_callback(lambda _: self._wake())
            self._is_waited_for = True
            try:
                while True:
                    if (version := self._version.check()) != self._at:
                        self._at, self._taken = version, 0
                    self._wake()
                    if self._ready:
                        if group := self._handed(self._ready.popleft()):
                            return group
                    elif self._task.done():
                        self._task.result()
                        raise StopAsyncIteration
                    else:
                        await self._changed.wait()
            except ExceptionGroup as caught:
                raise errors.first_error(caught) from None
            finally:
                self._is_waited_for = False

    async def aclose(self) -> None:
        """End what is under way; the run can be resumed."""
        if self._task:
            self._task.cancel()
            await asyncio.wait([self._task])
            if not self._task.cancelled():
                self._task.exception()  # so that nobody calls it unread

    async def __aenter__(self) -> Self:
        """Return itself."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """End what is under way."""
        await self.aclose()

    async def room(self) -> None:
        """Wait until another group may begin: the trainer has to take it while it is fresh enough."""
        while self._open or not self._is_waited_for:
            if self._open + (0 if self._version.is_fixed else self._taken) < self._rules.ahead:
                break
            await self._changed.wait()
        self._open += 1

    async def take(self, group: Group, ranking: OpenRanking) -> None:
        """Judge a group, and wait until the trainer has taken it; or skip it. Raises what is to end the run."""
        try:
            self._version.check()
            self.folder = ranking.store.folder
            query, basis = group.query.id, group.basis
            if before := self._before.get(query):
                ranking.write(before.of(query) or await ranking.ranked_apart(group), basis)
                return
            if why := policy_records.why_not_whole(group, self._settings.n):
                self._spent = ranking.cache.ceiling.spent
                self._refuse_end(ranking, why)
                self._skip(why)  # and it is not written: whoever resumes the run makes what is missing
                return
            policy_records.refuse_other_sampling(group, self._settings)
            ranked = await self._ranked(group, ranking)
            self._spent = ranking.cache.ceiling.spent
            if ranked is None:
                self._skip("the judge is out")
                return
            losses = Losses()
            told = RankedGroup(ranking.store.folder.name, group, ranked, "", both_orders=False)
            self._turns = self._turns or turns_from(ranking.store.reader)
            if rollouts := policy_records.policy_rollouts(told, self._turns, self._rules, losses):
                ready = _Ready(group, ranked, rollouts, partial(ranking.write, ranked, basis))
                self._ready.append(ready)
                self._wake()
                await ready.over.wait()
            else:
                ranking.write(ranked, basis)
                self._skip("; ".join(why for _, why, _ in losses.rows()))
        finally:
            self._open -= 1
            self._wake()

    def _refuse_end(self, ranking: OpenRanking, why: str) -> None:
        """Raise what leaves every further group without all of its rollouts."""
        if ceiling := ranking.cache.ceiling.stopped:
            raise errors.CeilingReached(ceiling)
        if given_up := ranking.run_env.gates.given_up:
            raise errors.HarnessError(
                f"{why}: {given_up}; see to the policy's server, and go on with {errors.option('resume')}"
            )

    async def _ranked(self, group: Group, ranking: OpenRanking) -> GroupRanking | None:
        """Return the ranking of a group on all of its verdicts; None where it goes without, by the rule of outages."""

        async def ask() -> GroupRanking:
            try:
                ranked = await ranking.ranked_apart(group)
            except ExceptionGroup as caught:
                raise errors.first_error(caught) from None
            if ranked.status == "incomplete" and (stopped := ranking.cache.ceiling.stopped):
                raise errors.CeilingReached(stopped)
            refuse_part(failures_of_missing(ranked, ranking.store))
            return ranked

        since = time.monotonic()
        ranked = await self._outage.ride_out(ask, lambda: since, self.folder)
        return ranked if isinstance(ranked, GroupRanking) else None

    def _handed(self, ready: _Ready) -> policy_records.PolicyGroup | None:
        """Hand a group out; None for one that is too old by now."""
        made = policy_records.PolicyGroup(
            ready.group.query, ready.rollouts, self._version.check(), ready.ranking, ready.group
        )
        ready.write()
        ready.over.set()
        if made.staleness > self._rules.max_staleness:
            self._skip("too old: the policy went on meanwhile")
            return None
        self.handed_out, self._taken, self._in_a_row = self.handed_out + 1, self._taken + 1, 0
        self._wake()
        return made

    def _skip(self, why: str) -> None:
        self.skipped[why] += 1
        self._in_a_row += 1
        if self._in_a_row > self._rules.max_skipped:
            reasons = ", ".join(f"{times} x {reason}" for reason, times in self.skipped.most_common())
            raise errors.NothingRankable(f"{self._in_a_row} groups one after another teach nothing: {reasons}")

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


@door_at_once
def rollout_groups(
    agent: AnyAgent,
    queries: Asked | Iterable[Asked],
    *,
    policy_version: int | Callable[[], int],
    rules: policy_records.GroupRules | None = None,
    outage: str = OUTAGE,
    resume: AnyRun | None = None,
    reuse: Sequence[AnyRun] = (),
    progress: Progress | None = None,
    clock: Clock = now,
    **settings: Unpack[RunSettings],
) -> PolicyGroups:
    """Roll an agent out on the policy's server (`base_url`), judge the groups, and hand them out one by one.

    All is archived as by `run`. All rollouts are sampled at `temperature` (1 unless given); the server must tell token
    ids. `policy_version` is the version that the server samples from, or a function that tells it; it never goes back.
    A group that teaches nothing is skipped, and a further query takes its place: `queries` may be an iterator without
    an end, and a query may come again. `outage` is as in harness.integrations. `resume` goes on with a run: what was
    not handed out comes first.
    Raises UsageError, here or from the iterator; there Refused where the server tells no token ids, JudgeFailed where
    the rule of outages says stop, CeilingReached, and NothingRankable after `rules.max_skipped` skipped groups.
    """
    usual: Any = {"tokens": "require", "temperature": _SAMPLED_ALIKE}
    usual["anchor_temperature"] = settings.get("temperature", _SAMPLED_ALIKE)
    chosen, run_env, version = load({**usual, **settings}), read_run_env(progress, clock), PolicyVersion(policy_version)
    _refuse_other_runs(chosen)
    groups = PolicyGroups(version, rules or policy_records.GroupRules(), chosen, JudgeOutage(outage, time.monotonic))
    run_env = replace(run_env, policy_version=version, taker=groups, judge_busy_s=JUDGE_BUSY_S)
    loaded, asked = loaded_agent(agent), _each_time(queries)
    if resume is None:
        sources = [find_folder(source, chosen.runs_dir) for source in reuse]
        groups.work = partial(_begin, loaded, chosen, asked, run_env, sources)
    else:
        folder = find_folder(resume, chosen.runs_dir)
        groups.go_on_from(folder)
        groups.work = partial(_go_on, folder, loaded, settings, asked, run_env)
    return groups


def _refuse_other_runs(settings: Settings) -> None:
    """Raise UsageError for settings under which a call's version or tokens cannot be told, or nothing is judged."""
    refused = {
        "tokens": (settings.tokens != "require", "a policy is trained on the tokens that it sampled"),
        "engine": (settings.engine != "local", "other processes cannot tell the policy's version"),
        "isolate": (settings.isolate != "none", "other processes cannot tell the policy's version"),
        "vary": (settings.vary is not None, "all rollouts of a group are sampled alike"),
        "judge_batch": (settings.judge_batch, "the policy would be another when the batches are over"),
        "topology": (settings.topology == "none", "a group without a ranking has no rewards"),
    }
    for name, (is_refused, why) in refused.items():
        if is_refused:
            raise errors.UsageError(f"{errors.option(name, getattr(settings, name))}: {why}; leave it out")


def _each_time(asked: Asked | Iterable[Asked]) -> Iterator[Query]:
    """Yield queries as they are asked for. One that comes again has an id of its own."""
    is_one = isinstance(asked, str | Query | Mapping | Path)
    several: Any = make_queries(cast("Any", asked)) if is_one else asked
    times = Counter[str]()
    for query in (each for one in several for each in make_queries([one])):
        times[query.id] += 1
        again = {"id": f"{query.id}#{times[query.id]}", "origin_id": query.id}
        yield query if times[query.id] == 1 else query.model_copy(update=again)


async def _begin(
    loaded: LoadedAgent, settings: Settings, asked: Iterator[Query], run_env: RunEnvironment, sources: Sequence[Path]
) -> None:
    first = list(islice(asked, 1))
    prepared = await prepare(loaded, settings, run_env.environ, first)
    await run_queries(prepared, chain(first, asked), run_env, reuse=sources)


async def _go_on(
    folder: Path, loaded: LoadedAgent, settings: RunSettings, asked: Iterator[Query], run_env: RunEnvironment
) -> None:
    """Go on with a run. Raises UsageError for a setting that is another than the run's and cannot be changed."""
    with RunReader(folder) as reader:
        chosen, begun = load(changed(reader.info.settings, settings)), reader.settings
    for name in settings.keys() - ResumeSettings.__annotations__.keys() - {"runs_dir"}:
        if (value := getattr(chosen, name)) != (before := getattr(begun, name)):
            raise errors.UsageError(
                f"{errors.option(name, value)}: run {folder.name} began with {errors.quoted(before)}, and is gone on "
                f"with so; leave it out, or begin a new run (without {errors.option('resume')})"
            )
    may_change = ResumeSettings.__annotations__.keys() - {"rubric"}
    named, changes = NamedAddresses.split({k: v for k, v in settings.items() if k in may_change and v is not None})
    rubric = settings.get("rubric")
    await resume_run(folder, loaded, run_env, changes=changes, rubric_word=rubric, named=named, queries=asked)
