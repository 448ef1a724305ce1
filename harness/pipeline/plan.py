"""What a run or a rescoring is going to do and to cost: checked before anything is spent."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from statistics import fmean
from typing import Any

from harness.archive import RankingHead, RunInfo, RunReader
from harness.core.errors import UsageError, did_you_mean
from harness.core.records import Group
from harness.core.settings import Settings, without_credentials
from harness.core.settings_sources import changed, load
from harness.endpoints import Bounds, Ceiling, Kind, Priced, agent_tokens, both, bounds, judge_tokens
from harness.judging import ListRubric, Rubric, load_list_rubric, load_rubric
from harness.pipeline.resolve import AgentSpec, JudgeSpec, redactor_of, resolve_agent, resolve_judge
from harness.ranking import calls_bounds, describe_design
from harness.rollouts import LoadedAgent

_JUDGING = {"judge", "judge_model", "judge_base_url", "judge_api", "judge_label"}


@dataclass(frozen=True)
class Prepared:
    """A run that is fully checked and has cost nothing yet."""

    agent: AgentSpec
    judge: JudgeSpec
    rubric: Rubric | ListRubric
    settings: Settings

    @property
    def offline(self) -> bool:
        """Whether any part of it is embedded, so that its ranks say nothing of an LLM."""
        return self.agent.offline or self.judge.offline

    def judge_calls(self, queries: int) -> tuple[int, int]:
        """Return the fewest and the most judge calls, repair turns aside."""
        low, high = call_bounds(self.settings, self.settings.n, self.judge)
        return low * queries, high * queries

    def agent_cost(self, queries: int) -> Bounds | None:
        """Return what the agent runs are taken to cost, None if their price is unknown."""
        runs = self.settings.n * queries
        return bounds((runs, runs), agent_tokens(self.settings.max_turns), self.agent.priced)

    def judge_cost(self, queries: int) -> Bounds | None:
        """Return what the judge calls are taken to cost, None if their price is unknown."""
        return judge_cost(self.settings, self.judge, self.judge_calls(queries))

    def cost(self, queries: int) -> Bounds | None:
        """Return what all of it is taken to cost, None if any price is unknown."""
        return both(self.agent_cost(queries), self.judge_cost(queries))


@dataclass(frozen=True)
class Rescoring:
    """What ranking needs of a Prepared run, for rollouts that are there already."""

    judge: JudgeSpec
    rubric: Rubric | ListRubric
    settings: Settings


async def prepare(loaded: LoadedAgent, settings: Settings, environ: Mapping[str, str]) -> Prepared:
    """Check everything that can be checked for free. Raises UsageError."""
    rubric = rubric_of(settings)
    redactor_of(loaded, settings, environ)("")  # a hook that does not work is found out here
    agent = await resolve_agent(loaded, settings, environ)
    judge = resolve_judge(settings, environ, agent.model, offline=agent.offline)
    check_prices(settings, [("the agent's model", agent.priced), *judge_prices(judge)])
    return Prepared(agent, judge, rubric, settings)


def rescoring(
    reader: RunReader, changes: Mapping[str, Any], environ: Mapping[str, str], *, free: bool = False
) -> Rescoring:
    """Return how an archived run is to be judged under `changes` to its settings. Raises UsageError."""
    settings = load(changed(reader.info.settings, changes))
    if not reader.info.judge:  # imported: nothing was judged yet
        judge = resolve_judge(settings, environ, None, offline=False)
    else:
        judge = JudgeSpec.model_validate(reader.info.judge)
        if _JUDGING & changes.keys():
            judge = resolve_judge(_aimed(settings, judge, changes), environ, judge.model, offline=judge.offline)
    _check_parts(reader, settings)
    if not free:
        check_prices(settings, judge_prices(judge))
    return Rescoring(judge, rubric_of(settings), settings)


def _check_parts(reader: RunReader, settings: Settings) -> None:
    """Refuse an --include or --exclude that names no rollout of the run."""
    rollouts, queries = reader.index.rollouts, reader.index.queries
    for flag in ("include", "exclude"):
        for word in getattr(settings, flag):
            query, _, index = word.rpartition("/")
            if query and query not in queries:
                raise UsageError(
                    f"--{flag} {word}: no query {query!r} in run {reader.info.id}{did_you_mean(query, queries)}"
                )
            places = [rollouts.get(query, {})] if query else rollouts.values()
            if index and not any(int(index) in there for there in places):
                raise UsageError(f"--{flag} {word}: no rollout {index} in run {reader.info.id}; they count from 0")


def as_begun(info: RunInfo, like: RankingHead | None, max_cost: float | None, environ: Mapping[str, str]) -> Rescoring:
    """Return how a run is to be judged: as when it began, or as the ranking that is to be made again.

    The addresses are those of then, wherever the environment points now. Raises UsageError if the rubric has changed.
    """
    settings = load(dict(like.settings if like else info.settings))
    place = dict(info.endpoint or {})
    if place.get("base_url") and place["base_url"] != without_credentials(environ.get("OPENAI_BASE_URL")):
        settings = replace(settings, base_url=place["base_url"])
    if max_cost is not None:
        settings = load(asdict(settings) | {"max_cost": max_cost})
    settings = replace(settings, offline=info.agent_offline, api=place.get("api", settings.api))
    rubric, before = rubric_of(settings), like.rubric if like else info.rubric
    if before not in (None, rubric.label):
        raise UsageError(
            f"the rubric is no longer {before}, but {rubric.label}: restore it, or judge anew with `harness rescore`"
        )
    return Rescoring(JudgeSpec.model_validate(like.judge if like else info.judge), rubric, settings)


def rubric_of(settings: Settings) -> Rubric | ListRubric:
    """Return what the judge goes by: marks for one of pairs, a plain text for a listwise one. Raises UsageError."""
    return load_list_rubric(settings.rubric) if settings.judge == "ruler" else load_rubric(settings.rubric)


def design(settings: Settings) -> str | None:
    """Return in words what a budget of judge calls is spent on, for each query; None where there is no choice."""
    if settings.judge == "ruler" or settings.topology != "cyclic" or settings.n == 1:
        return None
    plan = f"cyclic: {describe_design(settings.n, settings.order, settings.budget)}; ranked by {settings.estimator}"
    return plan if settings.budget is None else f"--budget {settings.budget} picks {plan}"


def call_bounds(settings: Settings, n: int, judge: JudgeSpec) -> tuple[int, int]:
    """Return the fewest and the most judge calls for a group of n, those of all jurors."""
    jurors = len(judge.members)
    if settings.judge == "ruler":
        return jurors, max(1, n - 1) * jurors
    low, high = calls_bounds(settings.topology, n, settings.order, settings.budget)
    if settings.judge_when == "tied":
        low = 0
    elif settings.sure:
        low = min(low, n - 1)
    return low * settings.judge_repeats * jurors, high * settings.judge_repeats * jurors


def most_calls(settings: Settings, group: Group, judge: JudgeSpec, told: int) -> int:
    """Return how many verdicts a group may take; how many lists a listwise judge needs is `told` beforehand."""
    ok = sum(r.status == "ok" for r in group.rollouts)
    return told if settings.judge == "ruler" else call_bounds(settings, max(1, ok), judge)[1]


def judge_cost(settings: Settings, judge: JudgeSpec, calls: tuple[int, int]) -> Bounds | None:
    """Return what calls cost that are shared out evenly among the jurors."""
    least, most = judge_tokens(settings.judge_budget)
    low, high = ([member.priced.usd(tokens) for member in judge.members] for tokens in (least, most))
    known_low, known_high = [usd for usd in low if usd is not None], [usd for usd in high if usd is not None]
    if len(known_low) < len(low) or len(known_high) < len(high):
        return None
    return Bounds(calls[0] * fmean(known_low), calls[1] * fmean(known_high))


def check_prices(settings: Settings, priced: Iterable[tuple[str, Priced]]) -> None:
    """Refuse a ceiling on what has no price."""
    if settings.max_cost is None:
        return
    for who, at in priced:
        if at.usd(judge_tokens(0)[0]) is None:
            where = f" at {at.base_url}" if at.base_url else ""
            raise UsageError(
                f"--max-cost {settings.max_cost:g} cannot be kept: the price of {who} "
                f"({at.model or 'one of its own'}{where}) is unknown; leave --max-cost out, or name a listed model"
            )


def judge_prices(judge: JudgeSpec) -> list[tuple[str, Priced]]:
    """Return every juror's price, as `check_prices` takes them."""
    return [("the judge", member.priced) for member in judge.members]


def ceiling_of(settings: Settings, judge: JudgeSpec, agent: AgentSpec | None = None) -> Ceiling:
    """Return --max-cost as a ceiling that knows what a call of either kind is likely to cost."""
    expected: dict[Kind, float] = {}
    asked = [member.priced.usd(judge_tokens(settings.judge_budget)[0]) for member in judge.members]
    if known := [usd for usd in asked if usd is not None]:
        expected["judge"] = max(known)
    if agent and (usd := agent.priced.usd(agent_tokens(settings.max_turns)[0])) is not None:
        expected["agent"] = usd
    return Ceiling(settings.max_cost, expected)


def _aimed(settings: Settings, before: JudgeSpec, changes: Mapping[str, Any]) -> Settings:
    """Keep of the run's own judge what the changes leave alone: its model and its address."""
    if before.offline:
        return settings
    kept: dict[str, Any] = {}
    if "judge_model" not in changes:
        kept["judge_model"] = _each(j.model for j in before.members)
    if "judge_base_url" not in changes:
        urls = [j.base_url or "" for j in before.members]
        kept["judge_base_url"] = (_each(urls) if "judge_model" in kept else urls[0]) or None
        if not before.jurors:
            kept["judge_api"] = settings.judge_api or before.api
    return replace(settings, **kept)


def _each(values: Iterable[str]) -> str | tuple[str, ...]:
    several = tuple(values)
    return several if len(several) > 1 else "".join(several)
