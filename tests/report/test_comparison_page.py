"""The page of a comparison: what is on it, and that hostile texts stay texts."""

import base64
import hashlib
import re
from itertools import pairwise
from pathlib import Path

import pytest

from harness.archive.page_folder import page_name
from harness.report.html.comparison_page import forest, write_comparison_page
from harness.report.html.diffs import instruction_diff
from harness.report.text import dollars
from tests.comparisons_by_hand import MadeComparison, Writer, a_comparison, a_side, make, stored
from tests.report.archives_by_hand import EVIL, READERS
from tests.report.parsed_page import TAGS, ParsedPage


def source_of(folder: Path, made: MadeComparison) -> str:
    reader = stored(folder, made)
    READERS.append(reader)
    return write_comparison_page(reader, made.comparison).read_text("utf-8")


def test_the_sentence_stands_first_then_the_figures_then_all_queries_worst_first(tmp_path):
    made = make(12, failed=True)
    page = ParsedPage(source_of(tmp_path, made))
    text = page.text()
    places = [
        text.index(words)
        for words in (
            made.comparison.sentence.partition(", judged")[0],
            "All pairs",
            "$0.0123 [0.0100, 0.0150]",
            "Then answer in",
            "the worst for B first. Open a query",
            "open a query for its transcripts",
            "Made from the archive",
        )
    ]
    assert places == sorted(places)
    assert f"verdicts {dollars(READERS[-1].index.spent)}" in text[: places[0]]
    outcomes = {query.ids[0]: query.outcome((0, 1)) or 0.0 for query in made.queries}
    in_full = re.findall(r"Query (q\d+) , topic", text)
    assert set(in_full) == set(outcomes)
    assert in_full == sorted(in_full, key=lambda name: outcomes[name])
    ways = ((lambda one: one < 0.5), (lambda one: one == 0.5), (lambda one: one > 0.5))
    lost, tied, won = (sum(map(way, outcomes.values())) for way in ways)
    assert f"Of 12 queries B lost {lost}, tied {tied} and won {won}" in text


def test_a_query_shows_both_transcripts_the_scores_of_both_orders_and_whom_the_judge_calls_a(tmp_path):
    writer = Writer()
    queries = (writer.query(0, (-2.0, -1.0)), writer.query(1, (-0.5, 0.5), failed="max_turns"))
    made = MadeComparison(a_comparison(queries), queries, writer.verdicts, writer.blobs)
    page = ParsedPage(source_of(tmp_path, made))
    worst, second = (page.text(f"ba-{page_name(name).removesuffix('.html')}") for name in ("q0", "q1"))
    assert "2 of side A to query 0" in worst
    assert "2 of side B to query 0" in worst
    assert (
        worst.index("Pair 1: A won") < worst.index("Pair 2: A won") < worst.index("Anchors, not in the win rate: B won")
    )
    assert "combined 6.0 4.0 6.0 4.0 6.00 4.00" in worst
    assert worst.count("what the judge calls A is B, and its B is A") == 3
    assert "The answer of B names its source." in worst
    assert "B failed, and so lost without being judged" in second
    assert "failed: max turns" in second
    assert "No answer." in second


def test_what_is_missing_is_said(tmp_path):
    writer = Writer()
    query = writer.query(0, (-2.0,), open_pairs=1)
    writer.verdicts.pop(query.matches[1].verdicts[0])
    comparison = a_comparison([query], status="incomplete", offline=True, slices=(), figures=())
    page = ParsedPage(source_of(tmp_path, MadeComparison(comparison, (query,), writer.verdicts, writer.blobs)))
    for words in (
        "not judged: a verdict is missing",
        "This verdict is not in the archive.",
        "This comparison is not finished",
        "it says nothing of any LLM",
    ):
        assert words in page.text()


@pytest.mark.parametrize(
    ("differing", "words"),
    [
        (0, "the agents' instructions and tools, which are the same on all sides"),
        (1, "on 1 query the query alone, because the sides' instructions or tools differ; on the others the agents'"),
        (2, "Task shown the query alone, because the sides' instructions or tools differ"),
    ],
)
def test_the_foot_says_which_task_the_judge_was_shown(tmp_path, differing: int, words: str):
    writer = Writer()
    made = [writer.query(number, (1.0,)) for number in range(2)]
    queries = tuple(q.model_copy(update={"task_differs": at < differing}) for at, q in enumerate(made))
    page = ParsedPage(
        source_of(tmp_path, MadeComparison(a_comparison(queries), queries, writer.verdicts, writer.blobs))
    )
    assert words in page.text()


def test_three_sides_have_a_line_for_each_two_and_what_each_lost_to_each(tmp_path):
    page = ParsedPage(source_of(tmp_path, make(5, sides=3)))
    for words in (
        "B against A",
        "C against A",
        "C against B",
        "Strength by Bradley and Terry",
        "Pareto front",
        "C against B, pair by pair",
    ):
        assert words in page.text()
    assert page.faults == []
    assert len(page.ids()) == len(set(page.ids()))


def test_a_line_is_coloured_by_the_rule_of_the_sentence():
    made = make(12, sides=3)
    sure = {"interval": (0.1, 0.4), "win_rate": 0.25, "unjudged": 0}
    cases = (({"p_holm": 0.04}, "down"), ({"p_holm": 0.06}, ""), ({"unjudged": 9, "bounds": (0.2, 0.6)}, ""))
    results = tuple(
        result.model_copy(update={**sure, **changes})
        for result, (changes, _) in zip(made.comparison.results, cases, strict=True)
    )
    lines = forest(made.comparison.model_copy(update={"results": results}))
    assert [line.shown for line in lines] == [colour for _, colour in cases]


def check_links_and_headings(page: ParsedPage) -> None:
    """Links lead somewhere, and headings go down one level at a time."""
    assert {link for link in page.links() if link.startswith("#")} <= {f"#{name}" for name in page.ids()}
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert all(below <= above + 1 for above, below in pairwise(levels))
    assert all("scope" in attributes for tag, attributes in page.elements if tag == "th")


@pytest.mark.parametrize("sides", [2, 4])
def test_links_lead_somewhere_and_headings_go_down_one_level_at_a_time(sides, tmp_path):
    check_links_and_headings(ParsedPage(source_of(tmp_path, make(12 // sides, sides=sides))))


def test_hostile_texts_become_text_and_nothing_else(tmp_path):
    whole = source_of(tmp_path, make(4, evil=EVIL, failed=True))
    (script,) = re.findall(r"<script>.*?</script>", whole, re.DOTALL)
    source = whole.replace(script, "")
    page = ParsedPage(source)
    assert page.faults == []
    of_forms = {"form", "label", "input", "select", "option", "button", "output", "kbd"}
    assert {tag for tag, _ in page.elements} <= TAGS | {"del", "ins"} | of_forms
    names = {name for _, attributes in page.elements for name in attributes}
    assert not {name for name in names if name.startswith("on")} | (names & {"src", "srcset", "action", "formaction"})
    for raw in ("<img", "<svg", "</script", "<script", "javascript:window.pwned='a'\">"):
        assert raw not in source
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", source)
    assert not re.search(r"url\(|@import|//", page.style)
    policy = next(a["content"] for _, a in page.elements if a.get("http-equiv") == "Content-Security-Policy")
    digest = base64.b64encode(hashlib.sha256(script[8:-9].encode()).digest()).decode()
    assert "default-src 'none'" in policy
    assert policy.endswith(f"script-src 'sha256-{digest}'")


def test_it_is_written_to_the_folder_and_the_same_archive_gives_the_same_bytes(tmp_path):
    made = make(3)
    with stored(tmp_path, made) as reader:
        target = write_comparison_page(reader, made.comparison)
        assert target == reader.folder / "report.html"
        assert (
            write_comparison_page(reader, made.comparison, tmp_path / "other.html").read_bytes() == target.read_bytes()
        )


def test_above_a_hundred_queries_each_has_a_page_of_its_own_with_the_pairs_of_all_sides(tmp_path):
    made = make(34, sides=3)  # three pairings of 34 queries
    with stored(tmp_path, made) as reader:
        target = write_comparison_page(reader, made.comparison, tmp_path / "index.html")
        pages = {path.name: path.read_text("utf-8") for path in (tmp_path / "index").iterdir()}
        index = ParsedPage(target.read_text("utf-8"))
        assert set(pages) == {page_name(query.ids[0]) for query in made.queries}
        linked = {link.partition("#") for link in index.links() if link.startswith("index/")}
        assert len(linked) == 102
        parsed = {name: ParsedPage(source) for name, source in pages.items()}
        assert all(fragment in parsed[path.removeprefix("index/")].ids() for path, _, fragment in linked)
        page = parsed[page_name("q7")]
        assert page.faults == []
        check_links_and_headings(page)
        for words in ("B against A", "C against A", "C against B", "1 of side C to query 7", "All queries"):
            assert words in page.text()
        stamps = {path: path.stat().st_mtime_ns for path in (tmp_path / "index").iterdir()}
        (tmp_path / "index" / page_name("q7")).write_text("changed by hand")
        write_comparison_page(reader, made.comparison, target)
        drawn = [path.name for path, stamp in stamps.items() if path.stat().st_mtime_ns != stamp]
        assert drawn == [page_name("q7")]
        assert (tmp_path / "index" / page_name("q7")).read_text("utf-8") == pages[page_name("q7")]
        fewer = make(3)
        with stored(tmp_path / "fewer", fewer) as few:
            write_comparison_page(few, fewer.comparison, target)
    assert not (tmp_path / "index").exists()


@pytest.mark.parametrize(
    ("first", "second", "lines"),
    [
        ("a\nb", "a\nb", ["skipped:2 equal lines"]),
        ("Answer in 250 words.", "Answer in 100 words.", ["gone:Answer in [250] words.", "new:Answer in [100] words."]),
        ("one\ntwo", "one\nsomething else\ntwo", ["same:one", "new:something else", "same:two"]),
        ("", "new", ["new:new"]),
        (
            "\n".join(map(str, range(9))) + "\nx",
            "\n".join(map(str, range(9))) + "\nyy",
            [
                "skipped:6 equal lines",
                "same:6",
                "same:7",
                "same:8",
                "gone:x",
                "new:yy",
            ],
        ),
    ],
)
def test_a_diff_marks_the_words_that_changed_and_skips_what_is_far_from_a_change(first, second, lines):
    diff = instruction_diff(first, second) or []
    shown = [f"{d.kind}:" + "".join(f"[{text}]" if changed else text for text, changed in d.pieces) for d in diff]
    assert shown == lines


def test_instructions_too_long_to_compare_are_shown_without_a_diff(tmp_path):
    sides = (a_side("A", instructions="x\n" * 2_000), a_side("B", instructions="y\n" * 2_000))
    made = make(2, sides=2)
    changed = MadeComparison(
        made.comparison.model_copy(update={"sides": sides}), made.queries, made.verdicts, made.blobs
    )
    page = ParsedPage(source_of(tmp_path, changed))
    assert "too long to be compared line by line" in page.text()
