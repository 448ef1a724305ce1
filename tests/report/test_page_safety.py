"""What the page never lets through, and the HTML that it is made of."""

import re
from itertools import pairwise

from harness.archive.reader import RunReader
from harness.report.html.run_page import render_page
from tests.report.archives_by_hand import build, crowd
from tests.report.parsed_page import TAGS, ParsedPage, page_of


def test_hostile_texts_become_text_and_nothing_else(evil):
    source = render_page(evil.reader, evil.ranking)
    page = ParsedPage(source)
    assert page.faults == []
    assert {tag for tag, _ in page.elements} <= TAGS
    assert not any(
        name.startswith("on") or name in {"src", "srcset", "action", "formaction"}
        for _, a in page.elements
        for name in a
    )
    for raw in ("<img", "<svg", "</script", "<script", "javascript:window.pwned='a'\">"):
        assert raw not in source
    assert "</script><img src=x onerror=" in page.text("q1-m1")
    assert "{{ 7*7 }}{% raw %}" in page.text("q1-r1")
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", source)
    assert "<U+0000><U+0007><U+001B>[31m<U+007F> red <U+202E>gnp" in page.text("q1-r1")  # as on a terminal


def test_it_begins_with_its_doctype_and_carries_its_own_style(evil):
    source = render_page(evil.reader, evil.ranking)
    assert source.startswith("<!doctype html>")
    assert ParsedPage(source).style.strip().startswith(":root {")


def test_nothing_is_asked_for_over_the_network(evil):
    page = page_of(evil)
    assert all(v.startswith("#") or v == "data:," for _, a in page.elements for k, v in a.items() if k == "href")
    assert not re.search(r"url\(|@import|//", page.style)
    assert all("url(" not in a.get("style", "") for _, a in page.elements)
    policy = next(a["content"] for _, a in page.elements if a.get("http-equiv") == "Content-Security-Policy")
    assert "default-src 'none'" in policy
    assert "script-src" not in policy


def test_the_same_archive_gives_the_same_bytes(evil):
    with RunReader(evil.folder) as again:
        assert render_page(evil.reader, evil.ranking) == render_page(again, again.ranking())


def test_headings_go_down_one_level_at_a_time_and_tables_have_scopes(tmp_path):
    for sketches in ([crowd(5)], [crowd(3)] * 2, [crowd(3)] * 4):
        page = page_of(build(tmp_path / str(len(sketches)), *sketches))
        levels = [int(t[1]) for t, _ in page.elements if re.fullmatch("h[1-6]", t)]
        assert levels[0] == 1
        assert levels.count(1) == 1
        assert all(b <= a + 1 for a, b in pairwise(levels))
        assert all("scope" in a for t, a in page.elements if t == "th")
        assert {"header", "main", "footer"} <= {t for t, _ in page.elements}
