"""`harness compare` makes the rollouts of new sides side by side, so that what they take can be compared."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.desk import Desk, by_model
from tests.fake_endpoint import FakeEndpoint, Refuse

SIDES = ("poet.py", "--model", "weak", "--model", "strong", "--queries", "many.txt", "--judge-model", "judge")
OF_TWO = ("-n", "2", "--pairs", "1")


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with FakeEndpoint().serving() as endpoint:
        desk = Desk(tmp_path / "room", endpoint)
        (desk.work / "many.txt").write_text("\n".join(f"Who was number {n}?" for n in range(8)))
        yield desk


def asked(desk: Desk) -> list[str]:
    return [seen.body["model"] for seen in desk.endpoint.of_agent]


@pytest.mark.parametrize("shared_mcp", [False, True])
def test_rollouts_of_new_sides_alternate_unless_the_sides_share_their_mcp_servers(desk: Desk, shared_mcp: bool) -> None:
    (desk.work / "poet.py").write_text((desk.work / "poet.py").read_text() + f"SHARED_MCP = {shared_mcp}\n")
    done = desk("compare", *SIDES, *OF_TWO, "--concurrency", "1", "--json")
    assert done.code == 0, done.err_text
    weak, strong = ["weak"] * 16, ["strong"] * 16
    alternating = [model for both in zip(weak, strong, strict=True) for model in both]
    assert asked(desk) == (weak + strong if shared_mcp else alternating)
    (result,) = json.loads(done.out_text)["results"]
    assert result["run_together"] is not shared_mcp
    assert ("slower_p50" in result) is not shared_mcp


def test_the_half_that_ends_first_is_shown_with_the_difference_of_sides_that_ran_together(desk: Desk) -> None:
    desk.endpoint.agent = lambda seen: Refuse(400, "no", None, "seed") if "seed" in seen.body else by_model(seen)
    (desk.work / "other.txt").write_text("Answer at once.")
    (desk.work / "poet.txt").write_text("Answer in verse.")
    of_prompts = ("poet.py", "--model", "weak", "--instructions", "poet.txt", "--instructions", "other.txt")
    together = desk("compare", *of_prompts, *SIDES[5:], *OF_TWO)
    assert together.code == 0, together.err_text
    assert together.err_text.count("refuses the setting seed") == 1, "not once a side"
    assert together.out_text.count("half end within") == 2
    assert "of B, less that of A; both were run at the same time" in together.out_text
    (page,) = desk.room.runs.glob("*-compare-*/report.html")
    assert page.read_text().count("half end within") == 2


def test_a_second_side_that_is_refused_at_once_costs_one_rollout_of_the_first(desk: Desk) -> None:
    desk.endpoint.agent = lambda seen: Refuse(404, "no model") if seen.body["model"] == "strong" else by_model(seen)
    done = desk("compare", *SIDES, *OF_TWO)
    assert (done.code, "does not have the model 'strong'" in done.err_text) == (2, True)
    assert asked(desk) == ["weak", "strong"]
    desk.endpoint.agent = by_model
    resumed = desk("resume", "--json")
    assert resumed.code == 0, resumed.err_text
    assert len(asked(desk)) in {33, 34}, "the first rollout was kept, unless it was cut off"
