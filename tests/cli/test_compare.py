"""`harness compare`: two runs, or agents rolled out for it, judged by cross matches; nothing is bought twice."""

import json
import shutil
from typing import Any

import pytest

from tests.cli.desk import QUERIES, Desk, by_model, partial_judge
from tests.fake_endpoint import Refuse, Say, fair_judge
from tests.fuzz.attempts import Outcome


def figures(outcome: Outcome) -> dict[str, Any]:
    (result,) = json.loads(outcome.out_text)["results"]
    return result


def test_two_runs_are_compared_and_neither_is_written_to(desk: Desk, runs: tuple[str, str]) -> None:
    before = [desk.bytes_of(run) for run in runs]
    free = desk("compare", *runs, "--dry-run")
    assert (free.code, len(desk.endpoint.of_judge)) == (0, 0)
    assert "4 queries in common: 12 pairs, the anchors' among them" in free.out_text
    assert f"would buy 24 (judge: judge@{desk.endpoint.host}, rubric: writing)" in free.out_text
    done = desk("compare", *runs, "--json")
    assert done.code == 0, done.err_text
    assert f"would buy 24 (judge: judge@{desk.endpoint.host}, rubric: writing)" in done.err_text, "before it is spent"
    assert done.err_text.rstrip().endswith("bought 24")
    result = figures(done)
    assert (result["better"], result["worse"], result["tied"], result["win_rate"]) == (4, 0, 0, 1.0)
    assert (result["pairs"], result["both_orders"], result["anchors"]["value"]) == (8, 8, 1.0)
    assert [desk.bytes_of(run) for run in runs] == before
    for verdict_asked in desk.endpoint.of_judge:
        assert "TASK" in verdict_asked.user, "both sides have the same instructions and tools, which are shown"


def test_the_second_time_buys_nothing_and_prints_the_same_bytes(desk: Desk, runs: tuple[str, str]) -> None:
    first = desk("compare", *runs, "--json")
    asked, folders = len(desk.endpoint.requests), desk.folders()
    again = desk("compare", *runs, "--json")
    assert (again.code, again.out) == (0, first.out)
    assert (len(desk.endpoint.requests), desk.folders()) == (asked, folders)
    assert again.err_text.count("nothing to buy: the comparison is there") == 1
    assert "bought" not in again.err_text
    without_a_judge = desk("compare", *runs, "--json", environ={})
    assert (without_a_judge.code, without_a_judge.out) == (0, first.out)


def test_naming_the_sides_in_the_other_order_mirrors_all_for_no_calls(desk: Desk, runs: tuple[str, str]) -> None:
    there = desk("compare", *runs, "--json")
    asked = len(desk.endpoint.requests)
    back = desk("compare", *runs[::-1], "--json")
    assert (back.code, len(desk.endpoint.requests)) == (0, asked)
    a, b = figures(there), figures(back)
    assert (b["better"], b["worse"], b["win_rate"]) == (a["worse"], a["better"], 1 - a["win_rate"])
    assert b["interval"] == pytest.approx([1 - a["interval"][1], 1 - a["interval"][0]])
    assert b["margin"]["value"] == -a["margin"]["value"]
    more = desk("compare", *runs, "--pairs", "3", "--json")
    assert figures(more)["pairs"] == 12
    assert len(desk.endpoint.requests) - asked == 8, "the pairs that two had drawn are among the three"


def test_queries_are_matched_by_what_they_ask(desk: Desk, runs: tuple[str, str]) -> None:
    (desk.work / "other.jsonl").write_text(
        "\n".join(json.dumps({"id": f"x{n}", "query": q}) for n, q in enumerate([*QUERIES[2:], "Only here?"]))
    )
    a, b = runs[0], desk.run("strong", "-n", "2", queries="other.jsonl")
    done = desk("compare", a, b, "--json")
    assert figures(done)["queries"] == 2
    sides = json.loads(done.out_text)["sides"]
    assert [side["only_here"] for side in sides] == [2, 1]
    notes = "\n".join(json.loads(done.out_text)["notes"])
    assert "2 queries of A left out" in notes
    assert "1 query of B left out" in notes


def test_no_query_in_common_is_bad_input_and_three_of_each_side_are_named(desk: Desk, runs: tuple[str, str]) -> None:
    (desk.work / "other.txt").write_text("Other one?\nOther two?\nOther three?\nOther four?")
    done = desk("compare", runs[0], desk.run("strong", "-n", "2", queries="other.txt"))
    assert done.code == 2
    assert all(f"'Other {number}?'" in done.err_text for number in ("one", "two", "three"))
    assert "Other four" not in done.err_text
    assert done.err_text.count("?'") == 6


TWO_MODELS = ("--model", "weak", "--model", "strong")


def test_what_cannot_be_compared_is_refused_before_anything_is_asked(desk: Desk, runs: tuple[str, str]) -> None:
    asked = len(desk.endpoint.requests)
    offline = desk.run("weak", "--offline", "-n", "2")
    for argv, message in (
        ((runs[0], runs[0]), "cannot be compared with itself"),
        ((runs[0],), "2 to 26 sides, not 1"),
        ((runs[0], offline), "B (" + offline + ") is on the embedded model"),
        ((*runs, "--judge-model", "offline-features"), "the judge is the embedded one"),
        ((runs[0], "2"), f"'2' fits 3 runs: {', '.join((*runs, offline))}; say more of it\n"),
        (("poet.py", "--instructions", "q.txt"), "a second side is missing"),
        ((runs[0], "nobody"), "'nobody' is neither a run nor an agent"),
        ((*runs, "-n", "3"), "-n says how agents are rolled out, but every side is an archived run"),
        ((*runs, "--queries", "q.txt"), "--queries says how"),
        ((*runs, "--cluster", "topic"), "no query that the runs share has this key"),
        ((*runs, "--task", "q.jsonl"), "--task q.jsonl"),
        (("poet.py", "poet.py"), "name them with --queries FILE"),
        (("poet.py", "poet.py", "--queries", "q.txt", "-n", "1"), "side A would have no sample"),
        (("poet.py", *TWO_MODELS, "--instructions", "q.txt", "--instructions", "q.txt"), "--grid crosses"),
        (("poet.py", *TWO_MODELS, "--grid"), "give two of --instructions, --model, --config more than one value"),
        (("poet.py", *TWO_MODELS * 4, *("--config", "q.txt") * 4, "--grid"), "32 sides; at most 26"),
        (("poet.py", runs[0], "--model", "a", "--model", "b"), "name one agent"),
    ):
        done = desk("compare", *argv)
        assert (done.code, done.out) == (2, b""), (argv, done.err_text)
        assert message in done.err_text, done.err_text
    assert len(desk.endpoint.requests) == asked
    allowed = desk("compare", runs[0], offline, "--allow-offline", "--dry-run")
    assert allowed.code == 0, allowed.err_text


def test_where_the_instructions_differ_the_judge_is_shown_neither_or_a_task_of_the_users(desk: Desk) -> None:
    for name in "ab":
        (desk.work / f"{name}.txt").write_text(f"Please say {name}.")
    a, b = (desk.run("weak", "--instructions", f"{name}.txt", "-n", "2") for name in "ab")
    done = desk("compare", a, b, "--json")
    assert "the judge was shown the query alone" in "\n".join(json.loads(done.out_text)["notes"])
    assert not any("Please say" in seen.user or "Tools:" in seen.user for seen in desk.endpoint.of_judge)
    before = len(desk.endpoint.of_judge)
    (desk.work / "task.txt").write_text("Explain it to a child.")
    shown = desk("compare", a, b, "--task", "task.txt", "--json")
    assert "the judge was shown" not in "\n".join(json.loads(shown.out_text)["notes"])
    asked = desk.endpoint.of_judge[before:]
    assert asked
    assert all("Explain it to a child." in seen.user for seen in asked)


def test_other_rubrics_and_judges_of_the_runs_are_said_and_the_oldest_runs_hold(
    desk: Desk, runs: tuple[str, str]
) -> None:
    a, b = runs[0], desk.run("strong", "--rubric", "research", "-n", "2", judge="other")
    done = desk("compare", b, a, "--json")
    comparison = json.loads(done.out_text)
    notes = "\n".join(comparison["notes"])
    assert comparison["judge"] == f"judge@{desk.endpoint.host}"
    assert comparison["rubric"].startswith("writing@")
    assert "the runs have different rubrics (A: research@" in notes
    assert "the runs have different judges (A: other@" in notes
    named = desk("compare", b, a, "--json", "--judge-model", "other", "--rubric", "research")
    assert json.loads(named.out_text)["judge"] == f"other@{desk.endpoint.host}"


def test_a_judge_of_the_family_of_one_side_is_warned_of(desk: Desk, runs: tuple[str, str]) -> None:
    done = desk("compare", *runs, "--json", "--judge-model", "strong-2")
    assert "strong-2 is of the same family as the model of B" in "\n".join(json.loads(done.out_text)["notes"])


def test_who_fails_by_its_own_making_loses_without_a_judge(desk: Desk, runs: tuple[str, str]) -> None:
    desk.endpoint.agent = lambda seen: Say(refusal="I will not.") if "Ada" in seen.user else by_model(seen)
    refusing = desk.run("strong", "--max-failures", "99")
    before = len(desk.endpoint.of_judge)
    done = desk("compare", runs[0], refusing, "--json")
    result = figures(done)
    assert (result["better"], result["worse"], result["forfeits"]) == (3, 1, [0, 2])
    assert result["without_forfeits"]["value"] == 1.0
    assert len(desk.endpoint.of_judge) - before == 18


def test_what_the_infrastructure_failed_is_left_out_and_too_much_of_it_tells_nothing(
    desk: Desk, runs: tuple[str, str]
) -> None:
    desk.endpoint.agent = lambda seen: Refuse(400, "no such thing") if "Ada" in seen.user else by_model(seen)
    failing = desk.run("strong", "--max-failures", "99")
    done = desk("compare", runs[0], failing, "--json")
    comparison = json.loads(done.out_text)
    assert done.code == 1, "rollouts were left out, above --max-failures"
    assert comparison["sentence"].startswith(
        "Cannot tell: the infrastructure failed 3 of 12 rollouts of B, more than 10 %. Of the others: "
    )
    assert not any("the infrastructure failed 3" in note for note in comparison["notes"]), "the sentence says so"
    assert figures(done)["queries"] == 3
    assert desk("compare", runs[0], failing, "--max-failures", "3").code == 0


def test_a_verdict_that_fails_leaves_its_match_open_and_the_next_time_asks_for_it_alone(
    desk: Desk, runs: tuple[str, str]
) -> None:
    desk.endpoint.judge = lambda seen: Say("nonsense") if "bees" in seen.user else partial_judge(seen)
    done = desk("compare", *runs, "--json")
    assert done.code == 1
    assert json.loads(done.out_text)["status"] == "incomplete"
    assert figures(done)["unjudged"] == 2
    desk.endpoint.judge = partial_judge
    before = len(desk.endpoint.of_judge)
    again = desk("compare", *runs, "--json")
    assert (again.code, json.loads(again.out_text)["status"]) == (0, "complete")
    assert len(desk.endpoint.of_judge) - before == 6
    assert json.loads(again.out_text)["comparison"] == json.loads(done.out_text)["comparison"]


def test_a_ceiling_holds_for_the_comparison_and_the_rest_is_bought_when_it_is_lifted(
    desk: Desk, runs: tuple[str, str]
) -> None:
    priced = ("--price", "judge=10/10")
    unknown = desk("compare", *runs, "--max-cost", "1")
    assert (unknown.code, "is unknown" in unknown.err_text) == (2, True)
    stopped = desk("compare", *runs, *priced, "--max-cost", "0.1", "--judge-concurrency", "1")
    assert stopped.code == 4, stopped.err_text
    assert "--max-cost 0.1" in stopped.err_text
    bought = len(desk.endpoint.of_judge)
    assert 0 < bought < 24
    done = desk("compare", *runs, *priced)
    assert (done.code, len(desk.endpoint.of_judge)) == (0, 24), done.err_text
    assert "estimated cost: $" in done.err_text


def test_agents_are_rolled_out_each_in_a_run_of_its_own_and_compared(desk: Desk) -> None:
    sides = ("compare", "poet.py", "--model", "weak", "--model", "strong", "--queries", "q.txt")
    free = desk(*sides, "--judge-model", "judge", "--dry-run")
    assert (free.code, desk.folders(), len(desk.endpoint.requests)) == (0, set(), 0)
    assert "4 queries: 24 agent runs, up to 24 judge calls (A: weak@" in free.out_text
    done = desk(*sides, "--judge-model", "judge", "--json")
    assert done.code == 0, done.err_text
    comparison = json.loads(done.out_text)
    assert figures(done)["win_rate"] == 1.0
    assert [side["models"] for side in comparison["sides"]] == [["weak"], ["strong"]]
    assert [side["agent"] for side in comparison["sides"]] == ["poet", "poet"]
    assert desk.folders() == {comparison["comparison"], *(side["run"] for side in comparison["sides"])}
    assert (len(desk.endpoint.of_agent), len(desk.endpoint.of_judge)) == (24, 24)
    again = desk("compare", *(side["run"] for side in comparison["sides"]), "--json")
    assert (again.out, len(desk.endpoint.requests)) == (done.out, 48), "the very comparison, by the runs' ids"
    mixed = desk("compare", comparison["sides"][0]["run"], "poet.py", "--model", "strong", "--json")
    assert (mixed.code, figures(mixed)["win_rate"]) == (0, 1.0), "asked what the run was asked"


def test_a_first_call_that_is_refused_leaves_nothing_behind(desk: Desk) -> None:
    desk.endpoint.agent = lambda _: Refuse(401, "no such key")
    argv = (
        "compare",
        "poet.py",
        "--model",
        "weak",
        "--model",
        "strong",
        "--queries",
        "q.txt",
        "--judge-model",
        "judge",
    )
    assert desk(*argv).code == 2
    assert desk.folders() == set()


def test_three_sides_are_compared_two_by_two(desk: Desk, runs: tuple[str, str]) -> None:
    done = desk("compare", *runs, desk.run("middling"), "--pairs", "1", "--json")
    comparison = json.loads(done.out_text)
    rates = {"".join(result["sides"]): result["win_rate"] for result in comparison["results"]}
    assert rates == {"AB": 1.0, "AC": 1.0, "BC": 0.0}


def test_the_spread_of_equal_agents_comes_from_the_pairs_that_a_run_has_judged(desk: Desk) -> None:
    desk.endpoint.agent = lambda seen: Say(f"weak answer {len(desk.endpoint.requests)} on {seen.user}")
    desk.endpoint.judge = fair_judge()
    (desk.work / "many.txt").write_text("\n".join(f"Question {n}?" for n in range(8)))
    made = ("run", "--agent", "poet.py", "--model", "weak", "--queries", "many.txt", "--judge-model", "judge")
    assert desk(*made, "-n", "4", "--topology", "round_robin", "-q").code == 0
    (ranked,) = desk.folders()
    other = desk.run("weak", queries="many.txt")
    result = figures(desk("compare", ranked, other, "--json"))
    assert result["floor_from"] == "runs"
    assert 0.2 < result["floor"] <= 0.36, "one half, over the root of two pairs, less what tied"
    assert figures(desk("compare", other, ranked, "--json"))["floor_from"] == "default"


def test_keys_go_only_where_this_machine_made_the_runs_or_todays_user_says(desk: Desk, runs: tuple[str, str]) -> None:
    shutil.rmtree(desk.room.home / "state")
    keyed = {"HARNESS_JUDGE_API_KEY": "sk-mine"}
    asked = len(desk.endpoint.requests)
    refused = desk("compare", *runs, environ=keyed)
    assert (refused.code, len(desk.endpoint.requests)) == (2, asked)
    assert f"HARNESS_JUDGE_API_KEY would go to {desk.endpoint.base_url}" in refused.err_text
    assert not any("compare" in name for name in desk.folders())
    allowed = desk("compare", *runs, "--judge-base-url", desk.endpoint.base_url, environ=keyed)
    assert allowed.code == 0, allowed.err_text


def test_a_ceiling_holds_for_rollouts_and_judging_together_and_resume_does_the_rest(desk: Desk) -> None:
    sides = ("poet.py", "--model", "weak", "--model", "strong", "--queries", "q.txt", "--judge-model", "judge")
    prices = ("--price", "weak=100/100", "--price", "strong=100/100", "--price", "judge=10/10")
    slowly = ("--concurrency", "1", "--judge-concurrency", "1")
    stopped = desk("compare", *sides, *prices, *slowly, "--max-cost", "0.2")
    assert (stopped.code, desk.endpoint.of_judge) == (4, [])
    assert "stopped before the first query was compared: " in stopped.err_text
    assert "--max-cost" in stopped.err_text
    assert len(desk.endpoint.of_agent) < 24
    assert desk("resume", "--max-cost", "0.3", *prices).code == 4
    done = desk("resume", "--max-cost", "9", "--json")
    assert done.code == 0, done.err_text
    assert (figures(done)["win_rate"], len(desk.endpoint.of_agent), len(desk.endpoint.of_judge)) == (1.0, 24, 24)


def test_rollouts_that_never_ended_are_told(desk: Desk, runs: tuple[str, str]) -> None:
    shutil.rmtree(desk.room.runs / runs[1] / "rollouts")
    done = desk("compare", *runs, "--json")
    assert done.code == 3, "there is no pair"
    assert "12 rollouts of B never ended; `harness resume" in "\n".join(json.loads(done.out_text)["notes"])


def test_a_jury_judges_and_the_verdicts_of_one_of_it_are_reused(desk: Desk, runs: tuple[str, str]) -> None:
    assert desk("compare", *runs, "-q").code == 0
    jury = ("--judge-model", "judge", "--judge-model", "other")
    free = desk("compare", *runs, *jury, "--dry-run", "--json")
    assert (json.loads(free.out_text)["reused"], json.loads(free.out_text)["would_buy"]) == (24, [24, 24])
    done = desk("compare", *runs, *jury, "--json")
    assert (done.code, figures(done)["win_rate"], len(desk.endpoint.of_judge)) == (0, 1.0, 48)


def test_imported_runs_are_compared_by_a_judge_that_is_named(desk: Desk) -> None:
    for model in ("weak", "strong"):
        said = [{"role": "user", "content": q} for q in QUERIES]
        chats = [[q, {"role": "assistant", "content": f"{model} {n}"}] for q in said for n in range(2)]
        (desk.work / f"{model}.jsonl").write_text("\n".join(json.dumps({"messages": chat}) for chat in chats))
        assert desk("import", f"{model}.jsonl", "--name", model).code == 0
    a, b = sorted(desk.folders(), key=lambda name: "strong" in name)
    unnamed = desk("compare", a, b)
    assert (unnamed.code, "name one with --judge-model" in unnamed.err_text) == (2, True)
    done = desk("compare", a, b, "--judge-model", "judge", "--json")
    assert done.code == 0, done.err_text
    assert (figures(done)["win_rate"], figures(done)["pairs"], figures(done)["anchors"]) == (1.0, 8, None)
