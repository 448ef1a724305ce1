"""--topology and --budget as a user types them."""

import pytest

from tests.conftest import Harness


def test_a_run_without_judging_is_done_unranked_and_says_how_to_rank_it_later(harness: Harness):
    done = harness("run", "-n", "3", "--topology", "none", "--json")
    (group,) = done.json["groups"]
    assert done.code == 0, done.err
    assert "0 judge calls" in done.err
    assert (group["topology"], group["status"], group["judged"]) == ("none", "incomplete", 0)
    assert {r["rank"] for r in group["rollouts"]} == {None}
    assert "rescore --topology arena" in group["notes"][0]
    later = harness("rescore", "--topology", "arena", "--json")
    assert later.code == 0, later.err
    assert later.json["groups"][0]["status"] == "complete"


def test_a_budget_says_what_it_picks_and_is_what_the_judging_costs(harness: Harness):
    done = harness("run", "-n", "4", "--budget", "8", "--json")
    assert done.code == 0, done.err
    said = " ".join(done.err.split())
    assert "4 agent runs, 8 judge calls" in said
    assert "cyclic: each of the 6 pairs in one order, sides balanced, then the 2 closest" in said
    assert "ranked by pooled" in said
    (group,) = done.json["groups"]
    assert (group["topology"], group["estimator"], group["judged"]) == ("cyclic", "pooled", 8)
    less = harness("rescore", "--budget", "5", "--json")
    assert "cyclic: 5 of the 6 pairs" in " ".join(less.err.split())
    assert less.json["groups"][0]["judged"] == 0


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--budget", "3"), "8 rollouts need at least 7 judge calls"),
        (("--budget", "28", "--topology", "swiss"), "a budget is spent by `cyclic`"),
        (("--topology", "maze"), "should be 'arena', 'anchor', 'single'"),
    ],
)
def test_a_design_that_cannot_be_is_refused_before_anything_is_spent(
    harness: Harness, args: tuple[str, ...], said: str
):
    done = harness("run", "--dry-run", *args)
    assert done.code == 2
    assert said in " ".join(done.err.split())
    assert "Traceback" not in done.err
