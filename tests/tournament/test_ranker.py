"""Ways of judging: one protocol, whichever is chosen."""

from collections.abc import Sequence
from dataclasses import dataclass

import anyio
import pytest

from harness.archive.store import MemoryStore
from harness.core.rankings import GroupRanking, Ranked
from harness.core.records import Group
from harness.core.settings import OFFLINE_JUDGE, SETTINGS
from harness.core.settings_sources import load
from harness.endpoints.credentials import Credentials
from harness.judging.judge_model import JudgeModel
from harness.judging.rubric import ListRubric, load_list_rubric
from harness.judging.verdict_cache import VerdictCache
from harness.pipeline.judge_inputs import load_named_rubric
from harness.pipeline.plan import JudgingPlan, call_bounds
from harness.pipeline.rank_groups import rank_part
from harness.pipeline.resolve import JudgeSpec
from harness.pipeline.run_environment import RunEnvironment
from harness.pipeline.stages import open_ranker
from harness.tournament.group import Rules
from harness.tournament.listwise import ListwiseRanker
from harness.tournament.pairwise import TournamentRanker
from harness.tournament.ranker import METHODS, Ranker
from tests.builders import a_group, a_rollout, by_strength
from tests.judging.scripted import a_jury
from tests.judging.test_jury import Juror
from tests.tournament.test_listwise import SCORES, ScriptedListJudge, a_list_jury

GROUP = a_group(a_rollout(i, answer) for i, answer in enumerate("abcd"))
X, Y = (Juror(name, by_strength(SCORES)) for name in "xy")


def test_every_value_of_the_setting_has_a_method() -> None:
    assert set(METHODS) == set(SETTINGS["judge"].choices)


@pytest.mark.parametrize(
    ("ranker", "judges"),
    [
        (TournamentRanker(a_jury(X), Rules(topology="round_robin")), 1),
        (TournamentRanker(a_jury(X, Y), Rules(topology="round_robin")), 2),
        (ListwiseRanker(a_list_jury(ScriptedListJudge(SCORES)), Rules()), 1),
        (ListwiseRanker(a_list_jury(ScriptedListJudge(SCORES, "x"), ScriptedListJudge(SCORES, "y")), Rules()), 2),
    ],
    ids=["pairs", "a jury of pairs", "lists", "a jury of lists"],
)
def test_a_ranker_ranks_a_group_within_the_bounds_it_states(ranker: Ranker, judges: int) -> None:
    low, high = ranker.call_bounds(len(GROUP.rollouts))
    ranking = anyio.run(ranker, GROUP)
    assert (ranking.topology, ranking.estimator) == (ranker.topology, ranker.estimator)
    assert [r.rank for r in ranking.rollouts] == [1.5, 0, 3, 1.5]
    assert low % judges == high % judges == 0
    assert low <= ranking.judged + ranking.reused <= high


@dataclass(frozen=True)
class FirstComes:
    """A way of judging that asks nobody: the first rollout is the best."""

    topology = estimator = "first"
    adaptive = False

    def call_bounds(self, n: int) -> tuple[int, int]:
        return 0, 0

    async def __call__(self, group: Group) -> GroupRanking:
        return GroupRanking(
            query=group.query.id,
            topology=self.topology,
            estimator=self.estimator,
            status="complete",
            signal="ok",
            rollouts=tuple(Ranked(index=r.index, rank=float(place)) for place, r in enumerate(group.rollouts)),
        )


class FirstComesMethod:
    """How it is made."""

    summary = "asks nobody"
    without_effect = ("topology",)
    ranks_from_matches = False

    def load_rubric(self, name: str) -> ListRubric:
        return load_list_rubric(name)

    def is_packaged(self, name: str) -> bool:
        return True

    def parse_rubric(self, text: str, label: str, where: str) -> ListRubric:
        return ListRubric(label, text)

    def describe(self, rules: Rules, n: int) -> str | None:
        return None

    def call_bounds(self, rules: Rules, n: int) -> tuple[int, int]:
        return 0, 0

    def ranker(self, models: Sequence[JudgeModel], rubric: ListRubric, cache: VerdictCache, rules: Rules) -> FirstComes:
        return FirstComes()


@pytest.mark.anyio
async def test_a_further_way_of_judging_needs_a_class_and_a_line_in_the_registry(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(METHODS, "ruler", FirstComesMethod())  # type: ignore[arg-type]
    settings = load({"judge": "ruler", "exclude": ["3"]})
    plan = JudgingPlan(JudgeSpec(model=OFFLINE_JUDGE), load_named_rubric(settings), settings, Credentials({}))
    assert call_bounds(settings, 4, plan.judge) == (0, 0)
    async with open_ranker(plan, VerdictCache(MemoryStore()), RunEnvironment({})) as ranker:
        ranking = await rank_part(ranker, GROUP, settings)
    assert ranking.topology == "first"
    assert [r.rank for r in ranking.rollouts] == [0, 1, 2, None]
    assert ranking.notes == ("left out, as --include or --exclude asks: rollout 3",)
