"""The index of a run of many queries: every number is the archive's, and one script is admitted by its hash."""

import base64
import hashlib
import re
from dataclasses import replace
from datetime import timedelta

import pytest

from harness.archive.reader import RunReader
from harness.archive.store import RunStore
from harness.core.records import Query
from harness.report.html.run_page import render_page
from harness.report.summary.ranking import summarize, winners_sentence
from harness.report.text import SIGNAL_WORDS, dollars, fixed, seconds
from tests.report.archives_by_hand import EVIL, START, QuerySketch, RolloutSketch, a_rollout, build, crowd
from tests.report.parsed_page import ParsedPage

SKETCHES = {
    "arena": [crowd(n) for n in (2, 5, 8, 13)],
    "single": [crowd(n, topology="single") for n in (2, 3, 6, 9)],
    "flips and failures": [
        crowd(4, shift=lambda _entrant, _opponent, first: 3 if first else -3),
        QuerySketch([RolloutSketch(answer=f"{i}") for i in range(4)]),
        QuerySketch([*crowd(3).rollouts, RolloutSketch(failure="timeout")]),
        QuerySketch([RolloutSketch(failure="quota")]),
        crowd(4, refuse=lambda *pair: pair == (0, 2)),
    ],
}


def rows_of(source: str) -> list[list[str]]:
    """Return the texts of the cells of each row of the index."""
    body = source.split('<table class="index">')[1].split("<tbody>")[1].split("</tbody>", maxsplit=1)[0]
    rows = [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, re.DOTALL) for row in body.split("</tr>")[:-1]]
    return [[" ".join(re.sub(r"<[^>]*>", " ", cell).split()) for cell in row] for row in rows]


@pytest.mark.parametrize("name", SKETCHES)
def test_every_number_of_the_index_is_the_archives(name, tmp_path):
    built = build(tmp_path, *SKETCHES[name])
    rows = rows_of(render_page(built.reader, built.ranking))
    assert len(rows) == len(SKETCHES[name])
    lines = summarize(built.reader, built.ranking).lines
    for number, (row, line, ranked) in enumerate(zip(rows, lines, built.ranking.groups, strict=True), 1):
        group = built.reader.group(next(q for q in built.reader.queries() if q.id == ranked.query))
        places = {r.index: r.rank for r in ranked.rollouts if r.rank is not None}
        best = min(places.values(), default=None)
        first = [index for index, rank in places.items() if rank == best]
        scores = [r.score for r in ranked.rollouts if r.index in first and r.score is not None]
        judged = [m for m in ranked.matches if not m.repeated]
        prices = [*(r.price_usd or 0.0 for r in group.rollouts), ranked.judge_usd or 0.0]
        anchor = next((r.index for r in group.rollouts if r.role == "anchor"), None)
        above = sum(rank < places[anchor] for rank in places.values()) if anchor in places else 0
        flips = sum(m.flipped for m in judged), sum(len(set(m.shown_first)) == 2 for m in judged)
        failed = sum(r.status == "failed" for r in group.rollouts)
        assert row[0] == str(number)
        assert ranked.query in row[1]
        assert row[2].startswith("none" if not first else f"tie of {len(first)}" if len(first) > 1 else str(first[0]))
        assert row[3] == (fixed(scores[0]) if scores else "")
        assert row[5].startswith(f"{above} of ")
        assert row[6] == (SIGNAL_WORDS[ranked.signal] if ranked.status == "complete" else "incomplete")
        assert row[7] == f"{flips[0]} of {flips[1]}"
        assert row[8] == (f"{failed} of {len(group.rollouts)}" if failed else "0")
        assert row[9] == dollars(sum(prices))
        assert row[10] == seconds(line.seconds)


def test_the_spread_shows_each_score_and_the_anchors(tmp_path):
    built = build(tmp_path, *(crowd(5) for _ in range(4)))
    drawings = re.findall(r"<svg[^>]*>.*?</svg>", render_page(built.reader, built.ranking))
    assert len(drawings) == 4
    scores = [r.score or 0.0 for r in built.ranking.groups[0].rollouts]
    assert f'aria-label="5 scores from {min(scores):.2f} to {max(scores):.2f}"' in drawings[0]
    assert drawings[0].count("M") == len(set(scores))
    assert drawings[0].count("<circle") == 1


def test_the_headline_says_who_wins_how_many_queries(tmp_path):
    level = QuerySketch([RolloutSketch(answer=f"{i}") for i in range(4)])
    built = build(tmp_path, *(crowd(8) for _ in range(3)), level)
    lines = list(summarize(built.reader, built.ranking).lines)
    assert [(line.signal, line.first_role) for line in lines] == [("ok", "sample")] * 3 + [("none", "anchor")]
    said = "A sample wins 3 of 4 queries, the anchor 0 (0.4 by chance); 1 shows no clear winner"
    assert ParsedPage(render_page(built.reader, built.ranking)).text().count(said) == 1
    by_anchor = [replace(lines[0], first_role="anchor"), *lines[1:3], replace(lines[1], complete=False)]
    assert (
        winners_sentence(by_anchor)
        == "A sample wins 2 of 4 queries, the anchor 1 (0.4 by chance); 1 shows no clear winner"
    )
    unlikely = [*lines[:2], replace(lines[2], p_best=0.4)]
    assert winners_sentence(unlikely).endswith(" 2 of 3 queries, the anchor 0 (0.2 by chance); 1 shows no clear winner")
    none = [replace(line, anchor_score=None) for line in lines[:3]]
    assert winners_sentence(none) == "One rollout wins on 3 of 3 queries"


def test_the_policy_admits_just_the_one_script_by_its_hash_and_queries_pages_none(tmp_path):
    built = build(tmp_path, *(crowd(2, query=f"{i} {EVIL}") for i in range(4)))
    source = render_page(built.reader, built.ranking)
    scripts = re.findall(r"<script>(.*?)</script>", source, re.DOTALL)
    assert len(scripts) == source.count("<script") == 1
    digest = base64.b64encode(hashlib.sha256(scripts[0].encode()).digest()).decode()
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', source)
    assert f"script-src &#39;sha256-{digest}&#39;" in policy or f"script-src 'sha256-{digest}'" in policy
    assert "unsafe-inline" not in policy.split("script-src")[1]
    assert "innerHTML" not in scripts[0]


def test_metadata_stands_in_the_row_and_fields_with_few_values_can_be_filtered_by(tmp_path):
    built = build(tmp_path, *(crowd(2, query=f"Question {i}?") for i in range(4)))
    groups = list(built.ranking.groups)
    with RunStore(built.folder, START + timedelta(days=1)) as store:
        for i in range(4):
            sketch = crowd(2)
            query = Query(id=f"more-{i}", text="More?", metadata={"topic": ["a", EVIL][i % 2], "all": "alike " * 90})
            store.add_query(query)
            for index in range(2):
                store.add_rollout(a_rollout(query, index, sketch))
    with RunReader(built.folder) as reader:
        ranking = built.ranking
        more = [groups[0].model_copy(update={"query": f"more-{i}"}) for i in range(4)]
        source = render_page(reader, type(ranking)(ranking.head, (*groups, *more), finished=True))
    page = ParsedPage(source)
    assert page.faults == []
    assert not any(name.startswith("on") for _, a in page.elements for name in a)
    assert [a["name"] for t, a in page.elements if t == "select" and "name" in a] == ["signal", "status", "flips", "m0"]
    rows = rows_of(source)
    assert "topic: a" in rows[4][1]
    assert sum(a.get("data-m0") == "a" for t, a in page.elements if t == "tr") == 2
