"""docs/benchmarks.md is what the files of benchmarks/results make it, and a benchmark renews its own file."""

import json
import sys
from pathlib import Path

import pytest

from benchmarks import figures


def test_the_page_of_benchmarks_is_the_one_that_the_results_make():
    assert figures.page() == figures.PAGE.read_text("utf-8"), "python -m benchmarks.figures renews the page"


@pytest.mark.process
def test_a_benchmark_renews_the_rows_of_its_file_and_keeps_the_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "gate.json"
    file.write_bytes((figures.RESULTS / "gate.json").read_bytes())
    monkeypatch.setattr(sys, "argv", ["gate.py", "--repeats", "2", "--json", str(file)])
    before = json.loads(file.read_text("utf-8"))
    figures.renew(file, ["agent", "passed"], [["equal", 8.0], ["worse ", "0.0"]])
    after = json.loads(file.read_text("utf-8"))
    assert (after["title"], after["shows"]) == (before["title"], before["shows"])
    assert after["command"] == "python benchmarks/gate.py --repeats 2"
    assert after["rows"] == [["equal", "8.0"], ["worse", "0.0"]]


def test_the_page_shows_the_chosen_rows_without_the_columns_that_chose_them():
    some = figures.Figures(
        title="T",
        shows="S.",
        only={"N": ["8"], "judge": ["noisy", "sharp"]},
        hidden=["calls"],
        command="c",
        measured="m",
        columns=["N", "calls", "judge", "rho"],
        rows=[
            ["4", "6", "noisy", "0.5"],
            ["8", "14", "noisy", "10.5"],
            ["8", "14", "sharp", "9.0"],
            ["8", "14", "flat", "1.0"],
        ],
    )
    assert "judge   rho\nnoisy  10.5\nsharp   9.0\n" in figures.section(some)
