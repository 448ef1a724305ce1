"""What a comparison is written to: its page, Markdown for a pull request, and every match as CSV."""

import csv
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.test_compare import QUERIES, Desk
from tests.fake_endpoint import FakeEndpoint


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with FakeEndpoint().serving() as endpoint:
        yield Desk(tmp_path / "room", endpoint)


def test_markdown_and_csv_are_written_beside_the_page_over_older_ones(desk: Desk):
    markdown, matches = desk.work / "out" / "pr.md", desk.work / "matches.csv"
    matches.write_text("an older one")
    runs = desk.run("weak"), desk.run("strong")
    said = desk("compare", *runs, "--judge-model", "judge", "--markdown", "out/pr.md", "--csv", "matches.csv")
    assert said.code == 0, said.err_text
    sentence = said.out_text.splitlines()[0]
    assert sentence in markdown.read_text("utf-8")
    rows = list(csv.DictReader(matches.read_text("utf-8").splitlines()))
    assert len(rows) == len(QUERIES) * 3
    assert {(row["outcome"], row["role"]) for row in rows} == {("1.0", "sample"), ("1.0", "anchor")}
    page = next(desk.work.glob("runs/*-compare-*/report.html"))
    assert sentence in page.read_text("utf-8")
    first, files = page.read_bytes(), ("--markdown", "again.md", "--csv", "again.csv")
    page.unlink()
    assert desk("report", page.parent.name, *files).out_text.strip().endswith("report.html")
    assert page.read_bytes() == first
    assert (desk.work / "again.md").read_bytes() == markdown.read_bytes()
    assert (desk.work / "again.csv").read_bytes() == matches.read_bytes()
    refused = desk("report", runs[0], *files)
    assert (refused.code, "--markdown" in refused.err_text) == (2, True)


def test_a_file_that_cannot_be_written_is_one_clear_line_and_the_comparison_is_kept(desk: Desk):
    (desk.work / "taken").mkdir()
    runs = desk.run("weak"), desk.run("strong")
    said = desk("compare", *runs, "--judge-model", "judge", "--csv", "taken")
    assert said.code == 2
    assert "cannot write taken: Is a directory" in said.err_text
    again = desk("compare", *runs, "--judge-model", "judge")
    assert "nothing to buy" in again.err_text
