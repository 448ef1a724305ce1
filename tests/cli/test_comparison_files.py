"""What a comparison is written to: page, Markdown, CSV; what stands there if judging fails, or in another folder."""

import csv
import json

from tests.cli.desk import QUERIES, Desk, partial_judge
from tests.fake_endpoint import Say


def test_markdown_and_csv_are_written_beside_the_page_over_older_ones(desk: Desk, runs: tuple[str, str]):
    markdown, matches = desk.work / "out" / "pr.md", desk.work / "matches.csv"
    matches.write_text("an older one")
    said = desk("compare", *runs, "--judge-model", "judge", "--markdown", "out/pr.md", "--csv", "matches.csv")
    assert said.code == 0, said.err_text
    sentence = said.out_text.splitlines()[0]
    assert sentence in markdown.read_text("utf-8")
    rows = list(csv.DictReader(matches.read_text("utf-8").splitlines()))
    assert len(rows) == len(QUERIES) * 3
    assert {(row["outcome"], row["role"]) for row in rows} == {("1.0", "sample"), ("1.0", "anchor")}
    page = next(desk.work.glob("runs/*-compare-*/report.html"))
    assert "<code>strong</code> beats <code>weak</code> on 4 of 4 queries" in page.read_text("utf-8")
    first, files = page.read_bytes(), ("--markdown", "again.md", "--csv", "again.csv")
    page.unlink()
    assert desk("report", page.parent.name, *files).out_text.strip().endswith("report.html")
    assert page.read_bytes() == first
    assert (desk.work / "again.md").read_bytes() == markdown.read_bytes()
    assert (desk.work / "again.csv").read_bytes() == matches.read_bytes()
    refused = desk("report", runs[0], *files)
    assert (refused.code, "--markdown" in refused.err_text) == (2, True)


def test_a_file_that_cannot_be_written_is_one_clear_line_before_anything_is_spent(desk: Desk, runs: tuple[str, str]):
    (desk.work / "taken").mkdir()
    asked, folders = len(desk.endpoint.requests), desk.folders()
    said = desk("compare", *runs, "--judge-model", "judge", "--csv", "taken")
    assert said.code == 2
    assert "cannot write taken: Is a directory" in said.err_text
    assert (len(desk.endpoint.requests), desk.folders()) == (asked, folders)


def test_where_all_judge_calls_fail_the_cause_is_printed_and_no_win_rate(desk: Desk, runs: tuple[str, str]) -> None:
    desk.endpoint.judge = lambda seen: Say("nonsense")
    done = desk("compare", *runs)
    assert done.code == 3
    assert "reused 0, bought 0, 24 failed" in done.err_text
    assert "24 judge calls failed: " in done.out_text
    shown = desk("show")
    assert "24 judge calls failed: " in shown.out_text
    assert not any(line.startswith(("win rate", "p ")) for line in done.out_text.splitlines()), done.out_text
    page = (desk.room.runs / desk.last_comparison() / "report.html").read_text()
    assert "No pair counts" in page
    three = desk("compare", *runs, desk.run("middling"), "--markdown", "c.md")
    assert "of 0 pairs" not in three.out_text
    assert "| B against A | – | – | – | – | – |" in (desk.work / "c.md").read_text()


def test_a_comparison_in_another_folder_of_runs_is_gone_on_with_by_its_path(desk: Desk, runs: tuple[str, str]) -> None:
    desk.endpoint.judge = lambda seen: Say("nonsense") if "bees" in seen.user else partial_judge(seen)
    folder = json.loads(desk("compare", *runs, "--json").out_text)["comparison"]
    desk.room.runs.rename(desk.work / "rm")
    shown = desk("show", f"rm/{folder}")
    assert f"`harness resume rm/{folder}`" in " ".join(shown.out_text.split())
    desk.endpoint.judge = partial_judge
    done = desk("resume", f"rm/{folder}", "--json")
    assert (done.code, json.loads(done.out_text)["status"]) == (0, "complete"), done.err_text


def test_a_grid_has_a_side_for_each_prompt_on_each_model_and_tells_which_are_beaten(desk: Desk) -> None:
    for name in ("plain", "kind"):
        (desk.work / f"{name}.txt").write_text(f"Be {name}.")
    (desk.work / "two.txt").write_text("\n".join(QUERIES[:2]))
    prompts = ("--instructions", "plain.txt", "--instructions", "kind.txt")
    small = ("--queries", "two.txt", "-n", "2", "--pairs", "1", "--json")
    done = desk("compare", "poet.py", *prompts, "--model", "weak", "--model", "strong", "--grid", *small)
    comparison = json.loads(done.out_text)
    sides = [(side["instructions_file"], *side["models"]) for side in comparison["sides"]]
    assert sides == [(f"{prompt}.txt", model) for prompt in ("plain", "kind") for model in ("weak", "strong")], (
        done.err_text
    )
    assert len(comparison["results"]) == 6
    asked = {(seen.body["model"], seen.system) for seen in desk.endpoint.of_agent}
    assert asked == {(model, f"Be {prompt}.") for prompt in ("plain", "kind") for model in ("weak", "strong")}
