"""`harness gate`: exit codes for CI, the forecast before anything is spent, refusals, files."""

import json
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from harness.core.gates import GateResult
from tests.cli.desk import Desk, by_model, partial_judge
from tests.fake_endpoint import FakeEndpoint, Say, Seen, fair_judge, verdict

MANY = [f"Why is number {number} not another one?" for number in range(40)]
FAR = ("--margin", "0.2")
"""A margin at which 20 queries can tell."""

ROUND_ROBIN = (
    *("run", "--agent", "poet.py", "--model", "weak", "--queries", "q.txt", "-n", "4"),
    *("--judge-model", "judge", "--topology", "round_robin"),
)


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with FakeEndpoint().serving() as endpoint:
        made = Desk(tmp_path_factory.mktemp("gate") / "room", endpoint)
        (made.work / "q.txt").write_text("\n".join(MANY[:20]))
        yield made


@pytest.fixture(scope="module")
def runs(desk: Desk) -> tuple[str, str]:
    return desk.run("weak"), desk.run("strong")


@pytest.fixture(autouse=True)
def usual_server(desk: Desk) -> None:
    desk.endpoint.agent, desk.endpoint.judge = by_model, partial_judge


def first_side(_: Seen) -> Say:
    return Say(verdict(8, 3), usage=(1000, 200))


def no_difference(_: Seen) -> Say:
    return Say(verdict(5, 5), usage=(1000, 200))


def test_a_better_agent_passes_and_the_forecast_is_said_before_anything_is_spent(desk: Desk, runs: tuple[str, str]):
    asked = len(desk.endpoint.requests)
    free = desk("gate", *runs, "--dry-run")
    assert (free.code, len(desk.endpoint.requests)) == (0, asked)
    assert (
        "B passes in 7 % if B is as good as the baseline: 20 queries, margin 5 points, at the default" in free.out_text
    )
    assert 'warning: this gate will mostly say "cannot tell"; about 560 queries' in free.out_text
    row = json.loads(desk("gate", *runs, "--dry-run", "--json").out_text)
    assert (row["forecast"]["spread"], row["forecast"]["queries_desired"]) == (0.42, 556)
    done = desk("gate", *runs, "--seed", "5")  # no other test has bought these verdicts
    assert done.code == 0
    assert done.err_text.index("B passes in 7 %") < done.err_text.index("bought")
    last = done.out_text.rstrip().splitlines()[-1]
    assert last == "Passed: `strong` is not worse than `weak`: preferred in 100 % [83, 100] on 20 queries, above 45 %."
    (folder,) = [line.split()[1] for line in done.out_text.splitlines() if line.startswith("comparison: ")]
    page = (desk.work / folder / "report.html").read_text("utf-8")
    assert "Passed: <code>strong</code> is not worse than <code>weak</code>" in page
    assert "lear winner" not in page + done.out_text, "the gate's verdict is the only one"


def test_a_worse_agent_fails_and_nothing_is_bought_twice(desk: Desk, runs: tuple[str, str]):
    first = desk("gate", *runs[::-1], "--json")
    assert "reused" not in desk("gate", *runs[::-1], "-q").err_text
    asked = len(desk.endpoint.requests)
    again = desk("gate", *runs[::-1], "--json", "--allow-unsure")
    assert (first.code, again.code, again.out) == (1, 1, first.out)
    assert len(desk.endpoint.requests) == asked
    gate = GateResult.model_validate_json(first.out_text)
    assert (gate.finding, gate.passed, gate.comparison.results[0].worse) == ("worse", False, 20)
    assert first.err_text.rstrip().endswith("preferred in 0 % [0, 17] on 20 queries, below 50 %.")


@pytest.mark.nightly
def test_a_gate_that_cannot_tell_fails_unless_it_may_pass_and_says_so(desk: Desk, runs: tuple[str, str]):
    same = desk.run("weak")
    desk.endpoint.judge = no_difference
    desk.endpoint.agent = lambda seen: Say("weak of course")
    alike = desk.run("weak"), desk.run("weak")
    unsure = desk("gate", *alike)
    assert unsure.code == 1
    assert "the interval must lie wholly above 45 %, or wholly below 50 %" in unsure.out_text
    assert "Failed: the gate cannot tell whether B is worse than A: preferred in 50 % [42, 58]" in unsure.out_text
    allowed = desk("gate", *alike, "--allow-unsure", "--junit", "unsure.xml")
    assert allowed.code == 0
    assert allowed.out_text.rstrip().splitlines()[-1].startswith("Passed, since --allow-unsure lets it: ")
    suite = ET.parse(desk.work / "unsure.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("21", "0", "1")
    assert desk("gate", *alike, *FAR).code == 0, "twenty ties are no worse than 30 %"
    noisy = desk("gate", runs[0], same)
    assert (noisy.code, noisy.out) == (2, b"")
    assert "of different transcripts does the judge name a winner" in noisy.err_text


def test_markdown_and_junit_say_what_the_gate_says(desk: Desk, runs: tuple[str, str], tmp_path: Path):
    summary = tmp_path / "summary.md"
    summary.write_text("An earlier step.")
    around = {"OPENAI_BASE_URL": desk.endpoint.base_url, "GITHUB_STEP_SUMMARY": str(summary)}
    assert desk("gate", *runs[::-1], "--junit", "gate.xml", environ=around).code == 1
    text = summary.read_text("utf-8")
    assert text.startswith("An earlier step.\n### Failed: `weak` is worse than `strong`: preferred in 0 %")
    assert "**B lost 20 of 20 queries to A**, the worst 10 of them:" in text
    assert "\n10. " in text
    assert "\n11. " not in text
    suite = ET.parse(desk.work / "gate.xml").getroot()[0]
    assert (suite.get("failures"), len(suite)) == ("1", 21)
    failure = suite[0].find("failure")
    assert failure is not None
    assert failure.get("message", "").startswith("Failed: `weak` is worse than `strong`")
    assert desk("gate", *runs, "--markdown", "gate.md", environ=around).code == 0
    assert summary.read_text("utf-8") == text, "--markdown stands in for the job's page"
    markdown = (desk.work / "gate.md").read_text("utf-8")
    assert markdown.startswith("### Passed")
    assert "lear winner" not in markdown + (desk.work / "gate.xml").read_text("utf-8"), (
        "the gate's verdict is the only one"
    )
    assert "passes in" not in markdown
    assert "cannot tell" not in markdown, "the gate has told: what would let it tell is no news"
    for command, option in (
        ("gate", "--junit"),
        ("gate", "--markdown"),
        ("compare", "--csv"),
        ("compare", "--markdown"),
    ):
        asked, folders = len(desk.endpoint.requests), desk.folders()
        unwritable = desk(command, *runs, "--seed", "9", option, "q.txt/gate.xml")  # whose verdicts are not bought
        assert (unwritable.code, "cannot write q.txt/gate.xml" in unwritable.err_text) == (2, True)
        assert (len(desk.endpoint.requests), desk.folders()) == (asked, folders), "nothing is spent"


@pytest.mark.process
def test_gates_that_could_say_nothing_are_refused_before_anything_is_spent(desk: Desk, runs: tuple[str, str]):
    (desk.work / "few.txt").write_text("\n".join(MANY[:19]))
    few = desk.run("weak", "-n", "2", queries="few.txt")
    assert desk("rubric", "new", "other.md").code == 0
    before = set(desk.folders())
    judging = ("--judge-model", "judge", "--topology", "anchor", "--order", "single")
    judged = desk("run", "--agent", "poet.py", "--model", "weak", "--queries", "q.txt", "-n", "2", *judging)
    assert judged.code == 0, judged.err_text
    (baseline,) = set(desk.folders()) - before
    asked, folders = len(desk.endpoint.requests), desk.folders()
    for argv, reason in (
        ((few, runs[1]), "both sides share 19 queries, and a gate takes at least 20"),
        ((*runs, few), "a gate takes two sides"),
        ((runs[0], runs[0]), "cannot be compared with itself"),
        ((*runs, "--judge-model", "offline-features"), "the judge is the embedded one"),
        ((baseline, runs[1], "--rubric", "other.md"), "was judged by writing"),
        ((*runs, "--cluster", "topic"), "no query"),
        ((*runs, "--looks", "9"), "9 is not in the range"),
        ((*runs, "--margin", "0.5"), "0.5 is not in the range"),
    ):
        refused = desk("gate", *argv, "--allow-unsure")
        assert (refused.code, reason in refused.err_text) == (2, True), refused.err_text
    assert (len(desk.endpoint.requests), desk.folders()) == (asked, folders)
    anew = desk("gate", baseline, runs[1], "--rubric", "other.md", "--buy-anew", "--pairs", "1")
    assert anew.code == 0, anew.err_text


@pytest.mark.nightly
def test_a_judge_that_likes_the_first_side_is_refused_with_what_was_bought_kept(desk: Desk):
    desk.endpoint.judge = first_side
    runs = desk.run("weak"), desk.run("strong")
    refused = desk("gate", *runs, "--allow-unsure", "--junit", "noise.xml", "--markdown", "noise.md")
    assert (refused.code, refused.out) == (2, b"")
    assert "on 60 pairs the judge's leads in the two orders correlate by 0.00" in refused.err_text
    suite = ET.parse(desk.work / "noise.xml").getroot()[0]
    error = suite[0].find("error")
    assert error is not None
    assert (suite.get("errors"), "on 60 pairs" in error.get("message", "")) == ("1", True)
    markdown = (desk.work / "noise.md").read_text("utf-8")
    assert markdown.startswith("### Refused: there is no gate")
    assert "The comparison is kept: " in markdown
    asked = len(desk.endpoint.requests)
    again = desk("gate", *runs)
    assert (again.code, len(desk.endpoint.requests)) == (2, asked)
    compared = json.loads(desk("compare", *runs, "--json").out_text)
    assert compared["results"][0]["win_rate"] == 0.5


@pytest.mark.nightly
def test_looks_stop_early_and_a_comparison_of_the_same_runs_goes_on(desk: Desk):
    (desk.work / "forty.txt").write_text("\n".join(MANY))
    runs = desk.run("weak", queries="forty.txt"), desk.run("strong", queries="forty.txt")
    asked = len(desk.endpoint.of_judge)
    done = desk("gate", *runs, "--looks", "2", "--json")
    gate = GateResult.model_validate_json(done.out_text)
    assert (gate.finding, gate.planned_looks, [look.queries for look in gate.looks]) == ("not worse", 2, [20])
    assert gate.comparison.results[0].queries == 20
    assert "a gate with 2 looks judged 20 of 40 queries" in "".join(gate.comparison.notes)
    half = len(desk.endpoint.of_judge) - asked
    again = desk("gate", *runs, "--looks", "2", "--json")
    assert (again.code, again.out, len(desk.endpoint.of_judge) - asked) == (0, done.out, half)
    resumed = desk("resume", gate.comparison.comparison)
    assert (resumed.code, len(desk.endpoint.of_judge) - asked) == (0, half), "the gate has told: nothing is missing"
    assert desk("validate", gate.comparison.comparison).code == 0
    whole = json.loads(desk("compare", *runs, "--json").out_text)
    assert (whole["results"][0]["queries"], len(desk.endpoint.of_judge) - asked) == (40, 2 * half)


@pytest.mark.nightly
def test_a_gate_stopped_by_its_ceiling_ends_with_4_and_goes_on_where_it_was(desk: Desk):
    runs = desk.run("weak"), desk.run("strong")
    before = len(desk.endpoint.of_judge)
    prices = ("--price", "judge=1000/1000")
    stopped = desk("gate", *runs, *prices, "--max-cost", "5", "--judge-concurrency", "1", "--allow-unsure")
    assert (stopped.code, stopped.out) == (4, b""), stopped.err_text
    bought = len(desk.endpoint.of_judge) - before
    done = desk("gate", *runs)
    assert done.code == 0
    assert f"reused {bought}, bought {120 - bought}" in done.err_text


@pytest.mark.nightly
def test_the_forecast_takes_the_spread_of_the_baselines_own_pairs(desk: Desk, runs: tuple[str, str]):
    before = desk.folders()
    desk.endpoint.judge = fair_judge()
    assert desk(*ROUND_ROBIN).code == 0
    (baseline,) = desk.folders() - before
    row = json.loads(desk("gate", baseline, runs[1], "--dry-run", "--json").out_text)
    assert row["forecast"]["spread_from"] == "runs"
    assert 0.25 < row["forecast"]["spread"] <= 0.36, "the share of pairs that do not tie, over two pairs"


def test_a_baseline_whose_own_pairs_show_no_information_is_refused_before_anything_is_spent(
    desk: Desk, runs: tuple[str, str]
):
    before = desk.folders()
    desk.endpoint.judge = first_side
    assert desk(*ROUND_ROBIN, "-n", "3").code == 0
    (baseline,) = desk.folders() - before
    asked = len(desk.endpoint.requests)
    refused = desk("gate", baseline, runs[1])
    assert (refused.code, len(desk.endpoint.requests)) == (2, asked)
    assert f"in the baseline {baseline}, on 20 pairs" in refused.err_text
