"""Above 3 queries: an index, and a page a query in a folder beside it, drawn only where something has changed."""

import os
import re
import stat
from pathlib import Path
from urllib.parse import unquote

import pytest

from harness.archive.page_folder import opened_pages, page_name
from harness.archive.result_files import RankingFile
from harness.archive.validation import findings
from harness.core.errors import ArchiveDamaged
from harness.core.records import Step
from harness.core.user_files import cache_folder
from harness.report.html.run_page import write_page
from tests.report.archives_by_hand import EVIL, BuiltArchive, build, crowd, hostile
from tests.report.parsed_page import TAGS, ParsedPage

STRANGE_IDS = ["../../etc/passwd", "a/b", "", ".", "..", "x" * 5000, EVIL, "Case", "case", "\u05e9", "\u0661", "a\nb"]


def drawn(built: BuiltArchive, ranking: RankingFile | None = None, *, anew: bool = False) -> dict[str, int]:
    """Write the page, and return the time (ns) of each page of a query."""
    write_page(built.reader, ranking or built.ranking, built.folder / "report.html", anew=anew)
    return times(built)


def times(built: BuiltArchive) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in (built.folder / "report").iterdir()}


def many(tmp_path: Path, n: int = 5) -> BuiltArchive:
    return build(tmp_path, *(crowd(3, query=f"Question {i}?") for i in range(n)))


def test_each_query_has_a_page_and_every_link_leads_to_a_file_or_a_place_on_its_page(tmp_path):
    built = build(tmp_path, *(crowd(3, query=f"Question {i}?") for i in range(4)), hostile())
    pages = drawn(built)
    assert set(pages) == {page_name(f"query-{i}") for i in range(5)}
    index = ParsedPage((built.folder / "report.html").read_text("utf-8"))
    assert [unquote(link) for link in index.links()] == [f"report/{page_name(f'query-{i}')}" for i in range(5)]
    for number, name in enumerate(page_name(f"query-{i}") for i in range(5)):
        source = (built.folder / "report" / name).read_text("utf-8")
        page = ParsedPage(source)
        assert page.faults == []
        assert {tag for tag, _ in page.elements} <= TAGS
        assert "script-src" not in source
        assert stat.S_IMODE((built.folder / "report" / name).stat().st_mode) == 0o600
        for link in page.links():
            if link.startswith("#"):
                assert link[1:] in page.ids()
            else:
                assert (built.folder / "report" / unquote(link)).resolve().is_file()
        around = [n for n in (number - 1, number + 1) if 0 <= n < 5]
        assert {page_name(f"query-{n}") for n in around} <= {unquote(link) for link in page.links()}
    assert stat.S_IMODE((built.folder / "report").stat().st_mode) == 0o700


@pytest.mark.parametrize("query", STRANGE_IDS)
def test_a_page_is_named_by_its_query_made_safe_and_unlike_any_other(query):
    name = page_name(query)
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,61}-[0-9a-f]{12}\.html", name)
    assert len({page_name(other).lower() for other in STRANGE_IDS}) == len(STRANGE_IDS)


def test_three_queries_share_a_page_and_pages_of_a_larger_ranking_go(tmp_path):
    built = many(tmp_path, 4)
    drawn(built)
    mine = built.folder / "report" / "notes.html"
    few = RankingFile(built.ranking.head, built.ranking.groups[:3], finished=True)
    write_page(built.reader, few, built.folder / "report.html")
    assert not (built.folder / "report").exists()
    drawn(built)
    mine.write_text("my own")
    write_page(built.reader, few, built.folder / "report.html")
    assert [path.name for path in mine.parent.iterdir()] == ["notes.html"]
    page = ParsedPage((built.folder / "report.html").read_text("utf-8"))
    assert page.count("section", "query") == 3


def test_a_page_is_written_only_for_a_group_that_changed(tmp_path):
    built = many(tmp_path)
    first = drawn(built)
    groups = built.ranking.groups
    again = [g.model_copy(update={"judged": 0, "reused": g.judged + g.reused, "judge_usd": 0.0}) for g in groups]
    assert drawn(built, RankingFile(built.ranking.head, again, finished=True)) == first
    changed = [again[0], again[1].model_copy(update={"signal": "weak"}), *again[2:]]
    second = drawn(built, RankingFile(built.ranking.head, changed, finished=True))
    assert {name for name in first if first[name] != second[name]} == {page_name("query-1")}
    fewer = drawn(built, RankingFile(built.ranking.head, changed[:4], finished=True))
    assert set(second) - set(fewer) == {page_name("query-4")}
    assert {name for name in fewer if fewer[name] != second[name]} == {page_name("query-3")}, "its next one is gone"


@pytest.mark.parametrize("anew", [False, True])
def test_a_page_that_anybody_else_has_touched_is_written_again_and_the_others_keep_their_time(anew, tmp_path):
    built = many(tmp_path)
    first = drawn(built)
    page = built.folder / "report" / page_name("query-2")
    text, status = page.read_text("utf-8"), page.stat()
    page.write_text(text.replace("<main>", "<mAin>"), "utf-8")
    os.utime(page, ns=(status.st_atime_ns, status.st_mtime_ns))
    second = drawn(built, anew=anew)
    assert page.read_text("utf-8") == text
    assert {name for name in first if first[name] != second[name]} == {page.name}


def test_without_its_memory_the_harness_leaves_pages_alone_that_have_the_right_text(tmp_path):
    built = many(tmp_path)
    first = drawn(built)
    memory = cache_folder(os.environ) / "pages"
    assert list(memory.iterdir())
    for content in ("", "[1]", '{"x": ["y", [1, 2, 3]]}', None):
        for path in memory.iterdir():
            path.unlink() if content is None else path.write_text(content)
        assert drawn(built) == first


def test_pages_written_before_an_interruption_are_not_drawn_again(tmp_path):
    built = many(tmp_path)
    folder = built.folder / "report"

    def interrupted() -> None:
        with opened_pages(folder, remember=True) as pages:
            pages.write("a-0123456789ab.html", "of this", "text")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    with opened_pages(folder, remember=True) as pages:
        assert pages.keeps("a-0123456789ab.html", "of this")
        assert not pages.keeps("a-0123456789ab.html", "of that")
        assert not pages.keeps("b-0123456789ab.html", "of this")


def test_what_stands_in_the_place_of_the_folder_or_of_a_page_is_refused_or_replaced_and_never_followed(tmp_path):
    built = many(tmp_path)
    drawn(built)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "canary").write_text("sings")
    page = built.folder / "report" / page_name("query-1")
    page.unlink()
    page.symlink_to(outside / "canary")
    drawn(built)
    assert not page.is_symlink()
    page.unlink()
    page.mkdir()
    with pytest.raises(ArchiveDamaged, match="a folder stands where a file should be"):
        drawn(built)
    page.rmdir()
    folder = built.folder / "report"
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    for put in (lambda: folder.symlink_to(outside), lambda: folder.write_text("a file"), lambda: os.mkfifo(folder)):
        put()
        with pytest.raises(ArchiveDamaged, match="stands where a folder should be"):
            drawn(built)
        folder.unlink()
    assert [(path.name, path.read_text()) for path in outside.iterdir()] == [("canary", "sings")]


def test_a_run_with_pages_is_whole_and_whatever_stands_in_their_place_is_damage(tmp_path):
    built = many(tmp_path)
    drawn(built)
    folder = built.folder / "report"
    (folder / "notes").mkdir()

    def damaged() -> list[tuple[Path, bool]]:
        every = findings(built.folder, lambda _: ())
        return [(finding.path, finding.by_hand) for finding in every if finding.kind == "damage"]

    assert damaged() == []
    (folder / "link.html").symlink_to(tmp_path)
    assert damaged() == [(folder / "link.html", False)]
    folder.rename(built.folder / "elsewhere")
    folder.symlink_to(tmp_path)
    assert damaged() == [(folder, True)]


def test_index_and_pages_stay_small_with_thousand_word_paths(tmp_path):
    steps = tuple(
        Step(kind="tool", tool_name="search", tool_input="{}", tool_output=f"{k} " + "lorem ipsum " * 100)
        for k in range(5)
    )
    sizes = {}
    for n in (4, 9):
        sketches = [crowd(8, query=f"Question {i}, as long as a question may well be? " * 3) for i in range(n)]
        for rollout in (rollout for sketch in sketches for rollout in sketch.rollouts):
            rollout.path = steps
        built = build(tmp_path / str(n), *sketches)
        drawn(built)
        sizes[n] = (built.folder / "report.html").stat().st_size
        assert max(path.stat().st_size for path in (built.folder / "report").iterdir()) < 500_000
    assert sizes[4] + 96 * (sizes[9] - sizes[4]) / 5 < 400_000
