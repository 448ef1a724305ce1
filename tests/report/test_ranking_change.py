"""What a ranking changed against an earlier one of the run."""

import json
from pathlib import Path

import pytest

from harness.archive.result_files import RankingFile
from harness.archive.typed_records import RankingHead
from harness.core.rankings import GroupRanking, Ranked
from harness.report.summary.rankings import PlaceMove, ranking_change
from tests.fuzz.attacks import Room
from tests.fuzz.attempts import Outcome, attempt
from tests.report.archives_by_hand import RANKING


def a_ranking(name: str, **ranks: list[float | None]) -> RankingFile:
    """Return a ranking with a group for each query, of which rollout i has the i-th rank."""
    groups = [
        GroupRanking(
            query=query,
            topology="arena",
            estimator="tiers",
            status="complete",
            signal="ok",
            rollouts=tuple(Ranked(index=index, rank=rank) for index, rank in enumerate(of_query)),
        )
        for query, of_query in ranks.items()
    ]
    head: RankingHead = RANKING.model_copy(update={"id": name})
    return RankingFile(head, groups, finished=True)


def test_winners_places_and_moves_are_compared_over_what_both_rankings_placed():
    before = a_ranking("old", a=[0, 1, 2, 3], b=[0.5, 0.5, 2, None], only_old=[0, 1])
    after = a_ranking("new", a=[3, 1, 2, 0], b=[0.5, 0.5, 2, 3], only_new=[0, 1])
    change = ranking_change(before, after)
    assert (change.ranking, change.winners_changed, change.of) == ("old", 1, 2)
    assert change.shift == pytest.approx((3 + 0 + 0 + 3) / 7)
    assert change.tau == pytest.approx(((1 - 5) / 6 + 1) / 2)
    assert change.moves == (PlaceMove("a", 0, 1, 4), PlaceMove("a", 3, 4, 1))


def test_a_rollout_that_is_left_out_moves_nobody():
    change = ranking_change(a_ranking("old", a=[0, 1, 2]), a_ranking("new", a=[None, 0, 1]))
    assert (change.winners_changed, change.of, change.shift, change.tau) == (0, 1, 0, 1)
    assert change.moves == ()


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room.make(tmp_path / "room")


def harness(room: Room, *argv: str) -> Outcome:
    outcome = attempt(argv, room.work, room.environ())
    assert outcome.faults() == []
    return outcome


def test_rescore_ends_with_what_changed_and_show_lists_the_rankings(room: Room):
    run = room.add_run("offline-arena").name
    command = ("rescore", run, "--estimator", "wins", "-q")
    rescored = " ".join(harness(room, *command).out_text.split())
    line = rescored.partition("against ranking ")[2]
    assert " (offline-features@offline, writing@1 3c31abe7514d, tiers): winners changed on " in line
    assert "of 1 query; Kendall's tau-b " in line
    again = json.loads(harness(room, *command, "--json").out_text)
    against = again["against"]
    assert set(against) == {"ranking", "winners_changed", "of", "tau", "shift", "moves"}
    assert (against["winners_changed"], against["of"], against["shift"], against["moves"]) == (0, 1, 0.0, [])
    assert "against" not in json.loads(harness(room, "show", run, "--json").out_text)
    listed = json.loads(harness(room, "show", run, "--rankings", "--json").out_text)
    assert [line["estimator"] for line in listed] == ["tiers", "wins", "wins"]
    assert listed[1]["ranking"] == against["ranking"]
    shown = harness(room, "show", run, "--rankings").out_text
    assert all(line["ranking"] in shown for line in listed)
    refused = harness(room, "show", run, "--rankings", "--all")
    assert (refused.code, "--rankings and --all show different things" in refused.err_text) == (2, True)


def test_a_run_tells_what_it_reused_and_from_which_run(room: Room):
    asked = ("run", "--offline", "-n", "3", "-q", "Why?")
    assert "reused" not in harness(room, *asked).out_text
    (lender,) = (run.name for run in room.runs.iterdir())
    again = harness(room, *asked, "--reuse", lender).out_text
    assert f" from {lender}), bought " in again
