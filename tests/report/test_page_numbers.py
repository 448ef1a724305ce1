"""Every number of index and pages is the archive's, whichever way the run was judged."""

import re
from html import escape
from pathlib import Path
from typing import Any

import pytest

import harness
from harness.archive.page_folder import page_name
from harness.archive.reader import RunReader
from harness.core.settings import TopologyName
from harness.report.text import SIGNAL_WORDS, dollars, fixed, probability, signed
from tests.report.parsed_page import ParsedPage
from tests.report.test_index_page import rows_of

QUERIES = ["What is Lisp?", "Who made C?", "Why was Java compiled?", "What is a closure?"]
DESIGNS = [*(name for name in TopologyName.__args__ if name != "none"), "ruler"]


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> harness.Run:
    folder = tmp_path_factory.mktemp("numbers")
    return harness.run_sync("search", QUERIES, n=4, offline=True, topology="none", runs_dir=folder)


def cells_of(source: str, table: str) -> list[list[str]]:
    """Return the texts of the cells of a table's body."""
    body = source.split(f'<table class="{table}">')[1].split("<tbody>")[1].split("</tbody>", maxsplit=1)[0]
    rows = (re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, re.DOTALL) for row in body.split("<tr")[1:])
    return [[" ".join(re.sub(r"<[^>]*>", " ", cell).split()) for cell in row] for row in rows]


@pytest.mark.few(3)
@pytest.mark.parametrize("design", DESIGNS)
def test_scores_places_matches_and_costs_are_those_of_the_archive(design: str, run: harness.Run):
    judged: dict[str, Any] = {"judge": "ruler", "topology": "arena"} if design == "ruler" else {"topology": design}
    path = Path(harness.rescore_sync(run, **judged).path)
    with RunReader(path) as reader:
        ranking = reader.ranking()
        index = rows_of((path / "report.html").read_text("utf-8"))
        assert len(index) == len(ranking.groups) == len(QUERIES)
        for row, query in zip(index, reader.queries(), strict=True):
            ranked, group = ranking.of(query), reader.group(query)
            assert ranked is not None
            source = (path / "report" / page_name(query.id)).read_text("utf-8")
            page = ParsedPage(source)
            best = min((r for r in ranked.rollouts if r.rank is not None), key=lambda r: (r.rank, r.index))
            assert (row[3], row[6]) == (fixed(best.score), SIGNAL_WORDS[ranked.signal])
            assert row[9] == dollars(sum(r.price_usd or 0.0 for r in group.rollouts) + (ranked.judge_usd or 0.0))
            by_index = {str(r.index): r for r in ranked.rollouts}
            table = cells_of(source, "ranking cards")
            assert len(table) == len(group.rollouts)
            for cells in table:
                rollout = by_index[cells[1].split()[1]]
                better = sum(r.rank is not None and r.rank < (rollout.rank or 0) for r in ranked.rollouts)
                assert cells[0].lstrip("=") == str(better + 1)
                assert cells[2] == ("" if rollout.p_best is None else escape(probability(rollout.p_best)))
                assert cells[3].split(" ±")[0] == fixed(rollout.score)
                assert cells[4] == fixed(rollout.reward, 3)
                assert cells[5] == signed(rollout.advantage)
            for number, match in enumerate(ranked.matches, 1):
                text = page.text("q1").split(f"No. {number} ", 1)[1]
                assert {fixed(match.score_a), fixed(match.score_b)} <= set(re.findall(r"\d+\.\d\d", text))
                assert f"Match {number}: rollout {match.a} and rollout {match.b}" in page.text(f"q1-m{number}")
            if design == "ruler":
                assert all((r.explanation or "") in page.text(f"q1-r{r.index}") for r in ranked.rollouts)
