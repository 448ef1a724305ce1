"""What would make two rollouts meet that never did: the command to type, and how many judge calls it buys."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from harness.archive.rankings import RankingFile
from harness.archive.reader import RunReader
from harness.archive.store import ReadStore
from harness.archive.typed_records import RankingHead
from harness.core.errors import UsageError
from harness.core.wording import call, command
from harness.endpoints.credentials import OPENAI_URL, Credentials
from harness.judging.verdict_cache import VerdictCache
from harness.pipeline.plan import JudgingPlan, changed_settings, recorded_judge
from harness.pipeline.rank_groups import rank_part
from harness.pipeline.resolve import JudgeSpec
from harness.pipeline.rubrics import rubric_as_begun
from harness.pipeline.run_environment import RunEnvironment
from harness.pipeline.stages import open_ranker
from harness.report.summary.why.pair_records import MeetingOffer, PairExplanation
from harness.transcripts.renderings import RENDERING

_OF_A_VERDICT = ("judge", "judge_budget", "judge_repeats", "jury", "show_instructions", "order")
"""Settings of a ranking that change what its verdicts are, or how many there are of a pair."""
_LEFT_OUT = "what --include and --exclude of the run's own settings leave out is not judged"


async def with_meeting(
    reader: RunReader, ranking: RankingFile, why: PairExplanation, run: str, run_env: RunEnvironment
) -> PairExplanation:
    """Return an explanation that also says what would make the two meet, if they never did.

    `run` is how the user would name the run. Nothing is bought, and no key is needed.
    """
    if why.matches or why.listwise:
        return why
    for side in (why.a, why.b):
        if side.failure:
            return replace(why, unable=f"rollout {side.index} failed ({side.failure}), and what failed is never judged")
    try:
        changes = _changes(reader, ranking.head, why)
        plan = _plan(reader, ranking.head, changes, run_env)
        calls = await _calls(reader, plan, why, run_env)
    except UsageError as exc:  # such as a rubric whose text is not at hand: nobody can judge by it
        return replace(why, unable=_portable(str(exc)))
    if calls is None:
        return replace(why, unable=_LEFT_OUT)
    typed, by_id = (call("rescore", word, **changes) for word in (run, reader.info.id))
    return replace(why, meet=MeetingOffer(typed.strip("`"), calls, _portable(by_id).strip("`")))


def _portable(message: str) -> str:
    """Return a message in which the harness is called by its name: the way to it is a path of this machine."""
    return message.replace(f"`{command()} ", "`harness ")


def _changes(reader: RunReader, head: RankingHead, why: PairExplanation) -> dict[str, Any]:
    """Return what has to be said to `rescore`, so that these two alone are judged, and as the ranking judged others."""
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
    return changes | _judge_changes(reader, head)


def _judge_changes(reader: RunReader, head: RankingHead) -> dict[str, Any]:
    judge = _judge(head)
    usual = recorded_judge(reader.info.judge, reader.folder / "run.json") if reader.info.judge else None
    if usual and usual.members == judge.members:
        return {}
    changes: dict[str, Any] = {"judge_model": tuple(member.model for member in judge.members)}
    urls = tuple(member.base_url or OPENAI_URL for member in judge.members if not member.offline)
    if urls and {*urls} != {usual.members[0].base_url if usual else OPENAI_URL}:
        changes["judge_base_url"] = urls
    if judge.label:
        changes["judge_label"] = judge.label
    return changes


def _judge(head: RankingHead) -> JudgeSpec:
    return recorded_judge(head.judge, f"rankings/{head.id}.jsonl:1")


def _plan(reader: RunReader, head: RankingHead, changes: Mapping[str, Any], run_env: RunEnvironment) -> JudgingPlan:
    """Return how `rescore` would judge under the changes: by the ranking's judge and rubric, wherever they are now."""
    settings = changed_settings(reader, changes)
    rubric = rubric_as_begun(reader.info, head, replace(settings, rubric=_rubric_word(head, settings.rubric)), None)
    credentials = Credentials.naming(run_env.environ).without_calls()
    return JudgingPlan(_judge(head), rubric, settings, credentials, rendering=RENDERING)


def _rubric_word(head: RankingHead, usual: str | None) -> str | None:
    word = head.settings.get("rubric")
    return usual if word is None else str(word)


async def _calls(reader: RunReader, plan: JudgingPlan, why: PairExplanation, run_env: RunEnvironment) -> int | None:
    """Return how many verdicts of the pair are missing; None where the two would not meet."""
    cache = VerdictCache(ReadStore([reader]), free=True)
    async with open_ranker(plan, cache, run_env) as ranker:
        ranked = await rank_part(ranker, reader.group(why.query), plan.settings)
    if not (ranked.matches or ranked.failed_verdicts):
        return None
    return len(ranked.failed_verdicts) + len(ranked.absent_verdicts)
