"""What a rescoring would reuse and buy, and which one would make two rollouts meet, before anything is spent."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio.lowlevel

from harness.archive.reader import RunReader
from harness.archive.result_files import RankingFile
from harness.archive.store import ReadStore
from harness.archive.typed_records import RankingHead
from harness.core.errors import HarnessError, UsageError, call, command, first_error
from harness.endpoints.costs import CostBounds
from harness.endpoints.credentials import OPENAI_URL, Credentials
from harness.judging.verdict_cache import VerdictCache
from harness.pipeline.judge_inputs import open_reuse_sources, rubric_as_begun
from harness.pipeline.plan import JudgingPlan, RescoreOptions, changed_settings, recorded_judge, rescoring
from harness.pipeline.rank_groups import rank_part, taking_part
from harness.pipeline.resolve import JudgeSpec, judge_cost, prices_by_name
from harness.pipeline.run_environment import RunEnvironment
from harness.pipeline.stages import judge_fault, open_ranker
from harness.report.summary.why_records import MeetingOffer, PairExplanation

_OF_A_VERDICT = (
    *("judge", "judge_agent_when", "judge_budget", "judge_repeats", "jury", "show_instructions", "require_citations"),
    "order",
)
"""Settings of a ranking that change what its verdicts are, or how many there are of a pair."""
_LEFT_OUT = "what --include and --exclude of the run's own settings leave out is not judged"


async def offer_match(
    reader: RunReader, ranking: RankingFile, why: PairExplanation, run: str, run_env: RunEnvironment
) -> PairExplanation:
    """Return an explanation that also says what would make two meet that never did; `run` is what the user calls it."""
    if why.matches or why.listwise:
        return why
    for side in (why.a, why.b):
        if side.failure:
            return replace(why, unable=f"rollout {side.index} failed ({side.failure}), and what failed is never judged")
    head = ranking.head
    try:
        changes = _changes(reader, head, why)
        settings = changed_settings(reader, changes)
        if (word := head.settings.get("rubric")) is not None:
            settings = replace(settings, rubric=str(word))
        rubric = rubric_as_begun(reader.info, head, settings, None)
        credentials = Credentials.naming(run_env.environ).without_calls()
        plan = JudgingPlan(_judge(head), rubric, settings, credentials)
        async with open_ranker(plan, VerdictCache(ReadStore([reader]), free=True), run_env) as ranker:
            ranked = await rank_part(ranker, reader.group(why.query), plan.settings)
    except UsageError as exc:  # such as a rubric whose text is not there: nobody can judge by it
        return replace(why, unable=_portable(str(exc)))
    if not (ranked.matches or ranked.failed_verdicts):
        return replace(why, unable=_LEFT_OUT)
    calls = len(ranked.failed_verdicts) + len(ranked.absent_verdicts)
    typed, by_id = (call("rescore", word, **changes) for word in (run, reader.info.id))
    return replace(why, meet=MeetingOffer(typed.strip("`"), calls, _portable(by_id).strip("`")))


def _portable(message: str) -> str:
    """Return a message in which the harness is called by its name: the way to it is a path of this machine."""
    return message.replace(f"`{command()} ", "`harness ")


def _changes(reader: RunReader, head: RankingHead, why: PairExplanation) -> dict[str, Any]:
    """Return the options of a `rescore` that judges these two alone, as the ranking judged the others."""
    of_query = "" if len(reader.index.queries) == 1 else f"{why.query.id}/"
    changes: dict[str, Any] = {"include": tuple(f"{of_query}{side.index}" for side in (why.a, why.b))}
    changes["topology"] = "round_robin"
    if reader.settings.judge_when != "always":
        changes["judge_when"] = "always"
    for name in _OF_A_VERDICT:
        value, usual = head.settings.get(name), getattr(reader.settings, name)
        if value is not None and value != (usual or ("both" if name == "order" else usual)):
            changes[name] = value
    if head.rubric != reader.info.rubric and not (head.rubric_text is None and reader.info.rubric is None):
        changes["rubric"] = str(head.settings.get("rubric") or head.rubric.partition("@")[0])
    judge = _judge(head)
    usual = recorded_judge(reader.info.judge, reader.folder / "run.json") if reader.info.judge else None
    if usual and usual.members == judge.members:
        return changes
    agents = tuple(member.agent.word or member.model for member in judge.members if member.agent)
    models = tuple(member.model for member in judge.members if not member.agent)
    changes |= {name: words for name, words in (("judge_agent", agents), ("judge_model", models)) if words}
    urls = tuple(member.base_url or OPENAI_URL for member in judge.members if not member.offline)
    if urls and {*urls} != {usual.members[0].base_url if usual else OPENAI_URL}:
        changes["judge_base_url"] = urls
    if judge.label:
        changes["judge_label"] = judge.label
    return changes


def _judge(head: RankingHead) -> JudgeSpec:
    return recorded_judge(head.judge, f"rankings/{head.id}.jsonl:1")


@dataclass(frozen=True)
class Quote:
    """What a rescoring would reuse and buy: verdicts, the fewest and the most bought, and what they may cost."""

    reused: int
    bought: tuple[int, int]
    cost: CostBounds | None
    judge: str
    judge_places: str
    """Where the judge would be asked: model@host of each member."""
    prices_by_name: tuple[str, ...] = ()


async def quote_rescoring(
    folder: Path, changes: Mapping[str, Any], run_env: RunEnvironment, options: RescoreOptions
) -> Quote:
    """Tell what `rescore_run` would reuse and buy, without buying or writing anything. Raises as `rescore_run` does."""
    with RunReader(folder) as reader, open_reuse_sources(options.reuse) as reuse_sources:
        _, plan = await rescoring(reader, changes, run_env.environ, options)
        refusal = judge_fault(plan)
        plan = replace(plan, credentials=plan.credentials.without_calls())
        cache, reused, low, high = VerdictCache(ReadStore([reader, *reuse_sources]), free=True), 0, 0, 0
        try:
            async with open_ranker(plan, cache, run_env) as ranker:
                for query in reader.queries():
                    await anyio.lowlevel.checkpoint()  # nothing else lets an interrupt in
                    group = reader.group(query)
                    ranking = await rank_part(ranker, group, plan.settings)
                    missing = len(ranking.failed_verdicts) + len(ranking.absent_verdicts)
                    reused, low, high = reused + ranking.reused, low + missing, high + missing
                    if missing and ranker.adaptive:  # what is missing now may ask for more
                        ok = sum(r.status == "ok" for r in taking_part(group, plan.settings).rollouts)
                        high += max(0, ranker.call_bounds(max(1, ok))[1] - ranking.reused - missing)
        except* HarnessError as errors:
            raise first_error(errors) from None
        if high and refusal:
            raise refusal
        cost = judge_cost(plan.settings, plan.judge, (low, high)) if high else CostBounds(0, 0)
        named = tuple(prices_by_name(plan.settings, plan.judge)) if high else ()
        return Quote(reused, (low, high), cost, plan.judge.model, plan.judge.places, named)
