"""`harness credit`: what it prints is the archive's, adds up, and says why where there is nothing to print."""

import json
from pathlib import Path
from typing import Any

import pytest

import harness
from tests.conftest import ROOT
from tests.report.test_why import Runs

LOOK = " ".join((ROOT / "docs" / "commands" / "look.md").read_text("utf-8").split())


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Two queries, four rollouts each, judged in a round robin."""
    made = Runs(tmp_path_factory.mktemp("credit") / "room")
    (made.room.work / "q.txt").write_text("Tell me about Lisp.\nTell me about Fortran.\n")
    made.run("--queries", "q.txt", "-n", "4", "--topology", "round_robin")
    return made


@pytest.fixture(scope="module")
def groups(runs: Runs) -> list[Any]:
    """What `harness credit --json` says of both queries."""
    return runs.json("credit")["groups"]


def test_credits_add_up_to_what_the_ranking_says_of_a_rollout_and_states_are_shared(
    runs: Runs, groups: list[Any]
) -> None:
    shown = runs.json("show")
    assert [group["query"] for group in groups] == [group["id"] for group in shown["groups"]]
    for group, ranked in zip(groups, shown["groups"], strict=True):
        assert (group["worth"], group["reason"]) == ("margin", None)
        for rollout, place in zip(group["rollouts"], ranked["rollouts"], strict=True):
            steps = rollout["steps"]
            assert [step["call"] for step in steps] == list(range(1, len(steps) + 1))
            margin = place["score" if ranked["estimator"] == "pooled" else "margin"]
            assert rollout["margin"] == pytest.approx(margin, abs=1e-4)
            assert rollout["end"] == pytest.approx(margin, abs=0.2), "as far as its siblings bear it out"
            total = steps[0]["value"] + sum(step["credit"] for step in steps)
            assert total == pytest.approx(rollout["end"], abs=1e-4)
            assert steps[0]["tools"] == ["search"]
            assert (steps[-1]["tools"], steps[0]["shared"]) == ([], 3)
        assert len({rollout["steps"][0]["state"] for rollout in group["rollouts"]}) == 1


def test_a_rollout_alone_a_pair_and_a_frame_say_the_same_of_a_step(runs: Runs, groups: list[Any]) -> None:
    group = groups[0]
    query, run = group["query"], harness.open(max(runs.room.runs.iterdir()))
    assert runs.json("show", "--rollout", "2", "--credit", "--query", query) == group["rollouts"][2]
    assert "at its end" in runs("show", "-r", "2", "--credit", "--query", query).out_text
    assert run.credit(query) == group
    why, row = runs.json("why", "last", "2", "0", "--query", query), run.to_frame(credit=True)[2]
    assert [round(credit, 6) for credit in json.loads(row["step_credits"])] == pytest.approx(
        [step["credit"] for step in group["rollouts"][2]["steps"]]
    )
    decisive = why["decisive"]["a"]
    assert row["decisive_call"] == (decisive and decisive["call"])
    assert "step_credits" not in run.to_frame()[0]


def test_the_page_has_a_bar_for_each_step_of_each_rollout(runs: Runs, groups: list[Any]) -> None:
    run = harness.open(max(runs.room.runs.iterdir()))
    page = run.write_page(path=runs.room.work / "page.html").read_text()
    steps = [*(group["tree"] for group in groups), *(r["steps"] for group in groups for r in group["rollouts"])]
    lists = page.split('<ol class="credit">')[1:]
    bars = [part[: part.index("</ol>")].count('class="bar"') for part in lists]
    assert sorted(bars) == sorted(map(len, steps))
    assert "search {&#34;query&#34;" in lists[0]
    assert all(line.count("rollout") == 1 for part in lists for line in part.partition("</ol>")[0].split("<li")[1:])


def test_graphviz_is_no_json(runs: Runs) -> None:
    assert runs("credit", "--graphviz", "--json").code == 2


@pytest.mark.parametrize("argv", [("--credit",), ("--credit", "--transcript", "-r", "0"), ("--credit", "--matches")])
def test_show_has_the_credit_of_one_rollout_only(argv: tuple[str, ...], runs: Runs) -> None:
    outcome = runs("show", *argv)
    assert outcome.code == 2
    assert "--credit" in outcome.err_text


def test_what_the_json_holds_is_what_the_docs_name(runs: Runs) -> None:
    credit = runs.json("credit", "--state", "tools")
    (group, *_), names = credit["groups"], LOOK[LOOK.index("## JSON of `credit`") :]
    rollout = group["rollouts"][0]
    for name in (*credit, *group, *rollout, *rollout["steps"][0]):
        assert f"`{name}`" in names, name


def test_the_text_of_one_query_has_all_steps_and_that_of_several_what_stands_out(runs: Runs, groups: list[Any]) -> None:
    query = groups[1]["query"]
    one, both = runs("credit", "--query", query).out_text, runs("credit").out_text
    assert one.startswith("SELF-TEST")
    assert one.count("95 %") == 4
    assert "Tell me about Fortran." in one
    assert "about Lisp" not in one
    assert "about Lisp" in both
    assert "95 %" not in both


@pytest.mark.parametrize(
    ("archive", "code", "says"),
    [("imported", 2, "it was imported"), ("online-ruler", 0, "a listwise judge gave its scores")],
)
def test_where_there_is_no_credit_it_says_why(archive: str, code: int, says: str, tmp_path: Path) -> None:
    old = Runs(tmp_path / "room")
    old.room.add_run(archive)
    outcome = old("credit")
    assert outcome.code == code
    assert says in " ".join((outcome.out_text + outcome.err_text).split())


def test_a_run_that_is_not_judged_has_no_credit(tmp_path: Path) -> None:
    made = Runs(tmp_path / "room")
    made.run("-n", "2", "--topology", "none")
    assert made.json("credit")["groups"][0]["reason"] == "it is not judged"
    assert made("credit", "--query", "no").code == 2


def test_of_a_single_rollout_there_was_nothing_to_judge(tmp_path: Path) -> None:
    made = Runs(tmp_path / "room")
    made.run("-n", "1")
    assert "fewer than two ended well, so there was nothing to judge" in made.json("credit")["groups"][0]["reason"]


def test_the_tree_has_each_step_once_with_all_that_took_it(groups: list[Any]) -> None:
    for group in groups:
        taken = [(index, way["state"], way["next"]) for way in group["tree"] for index in way["rollouts"]]
        states = {r["index"]: [step["state"] for step in r["steps"]] for r in group["rollouts"]}
        steps = [(index, *way) for index, path in states.items() for way in zip(path, [*path[1:], None], strict=True)]
        assert sorted(taken, key=str) == sorted(steps, key=str)
        assert group["tree"][0]["rollouts"] == sorted(states)
        credits_of = {(r["index"], s["state"]): s["credit"] for r in group["rollouts"] for s in r["steps"]}
        for way in group["tree"]:
            assert {credits_of[index, way["state"]] for index in way["rollouts"]} == {way["credit"]}


def test_graphviz_gets_a_box_a_state_and_an_arrow_a_step(runs: Runs, groups: list[Any]) -> None:
    text = runs("credit", "--graphviz").out_text
    lines = text.splitlines()
    assert (lines[0], lines[-1]) == ("digraph credit {", "}")
    assert text.count(" -> ") == sum(len(group["tree"]) for group in groups)
    assert text.count("style=rounded") == sum(len(group["rollouts"]) for group in groups)
    assert r'label="search {\"query\":' in text


def test_why_and_the_page_draw_the_tree_of_those_it_is_about(runs: Runs, groups: list[Any]) -> None:
    query = groups[0]["query"]
    pair = runs("why", "last", "2", "0", "--query", query).out_text
    assert "What each model call changed:" in pair
    assert pair.count("its answer, ends at") == 2
    assert runs("credit", "--query", query).out_text.count("its answer, ends at") == 4
