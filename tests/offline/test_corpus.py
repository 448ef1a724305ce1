"""A folder of texts as something to search."""

import re
from importlib.resources import files
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.errors import UsageError
from harness.offline.tool import Passage, PassageIndex, open_corpus, parse_passages, passages_text

ARTICLES = sorted(p.name for p in (files("harness.offline") / "corpus").iterdir() if p.name.endswith(".md"))


def titles(query: str, corpus: PassageIndex | None = None, limit: int = 5) -> list[str]:
    return [p.title for p in (corpus or open_corpus()).search(query, limit)]


def own(folder: Path, **texts: str) -> PassageIndex:
    for name, text in texts.items():
        (folder / f"{name}.md").write_text(text, "utf-8")
    return open_corpus(folder)


# ---- The packaged corpus


@pytest.mark.parametrize("name", ARTICLES)
def test_every_packaged_article_has_a_title_paragraphs_and_its_sources_and_is_found_by_its_title(name: str) -> None:
    text = (files("harness.offline") / "corpus" / name).read_text("utf-8")
    title = re.match(r"# (.+)\n\n", text)
    assert title
    assert re.search(r"^Sources: .+", text, re.MULTILINE)
    found = [p for p in open_corpus().search(title[1], 50) if p.file == name]
    assert len(found) >= 2
    assert {p.title for p in found} == {title[1]}
    assert not any(p.text.startswith(("#", "Sources")) for p in found)


def test_the_packaged_corpus_is_as_large_as_a_self_test_needs() -> None:
    assert len(ARTICLES) >= 30


# ---- Finding


@pytest.mark.parametrize(
    ("query", "title"),
    [
        ("Lisp", "Lisp"),
        ("FORTRAN", "Fortran"),
        ("garbage collectors", "Garbage collection"),
        ("Ada", "Ada"),
        ("Smalltalk messages", "Smalltalk"),
        ("What is Prolog?", "Prolog"),
    ],
)
def test_an_article_is_found_by_what_it_is_about(query: str, title: str) -> None:
    assert titles(query)[0] == title


def test_a_title_s_word_counts_more_than_the_text_s(tmp_path: Path) -> None:
    corpus = own(
        tmp_path, one="# Cheese\n\nIt is made of milk.", two="# Milk\n\nCheese, cheese and more of it is made here."
    )
    assert titles("cheese", corpus) == ["Cheese", "Milk"]


def test_no_more_passages_come_back_than_asked_for() -> None:
    assert [len(titles("programming language", limit=n)) for n in (0, 1, 3, 7)] == [0, 1, 3, 7]


def test_the_same_search_finds_the_same_twice() -> None:
    query = "the evolution of programming languages"
    assert open_corpus().search(query) == open_corpus().search(query)


@pytest.mark.parametrize(
    "query",
    [
        "",
        " ",
        "the of and",
        '"',
        '""',
        "'",
        "-",
        "()",
        "*",
        "^",
        ":",
        "?!",
        "\0",
        "\ud800",
        "🙂",
        "title:",
        "½²",
        "\u0301",
        "{}",
        "\\",
    ],
)
def test_a_query_without_a_word_finds_nothing_and_harms_nothing(query: str) -> None:
    assert titles(query) == []


@pytest.mark.parametrize(
    "query",
    [
        '"lisp',
        'lisp"',
        '"lisp" OR',
        "lisp AND",
        "NOT lisp",
        "lisp NEAR/2",
        "lisp*",
        "^lisp",
        "title:lisp",
        "-lisp",
        "{title}:lisp",
        "lisp; DROP TABLE passages",
        "lisp'",
        "(lisp",
        "lisp)",
        "lisp + ",
        "\0lisp",
        "\ud800 lisp",
        "LISP",
        "lisps",
        "what is lisp?",
    ],
)
def test_quotes_and_operators_in_a_query_are_but_words(query: str) -> None:
    assert "Lisp" in titles(query)


@given(st.text(st.characters(), max_size=60))
def test_no_query_raises(query: str) -> None:
    assert len(titles(query)) <= 5


def test_a_query_as_long_as_a_book_is_searched_for() -> None:
    book = " ".join(f"word{i}" for i in range(20_000))
    assert titles(book) == []
    assert titles(f"{book} prolog")[0] == "Prolog"


# ---- The user's own files


def test_own_files_are_read_at_any_depth_and_only_those_of_text(tmp_path: Path) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "deep" / "er" / "old-notes.TXT").write_text("Walruses sleep.\r\n\r\nWalruses eat.")
    (tmp_path / "top.md").write_text("# On walruses\n\nWalruses swim.")
    (tmp_path / "image.png").write_bytes(b"walruses")
    (tmp_path / "folder.md").mkdir()
    found = open_corpus(tmp_path).search("walruses", 9)
    assert {(p.title, p.file, p.text) for p in found} == {
        ("old notes", "deep/er/old-notes.TXT", "Walruses sleep."),
        ("old notes", "deep/er/old-notes.TXT", "Walruses eat."),
        ("On walruses", "top.md", "Walruses swim."),
    }


@pytest.mark.parametrize(
    "text",
    [
        "# On walruses\nWalruses swim.",
        "\ufeff# On walruses\n\nWalruses swim.",
        "\n# On walruses\n  Walruses\n  swim.\n",
    ],
)
def test_a_heading_is_the_title_whether_or_not_a_blank_line_follows(tmp_path: Path, text: str) -> None:
    assert own(tmp_path, a=text).search("walruses") == [Passage("On walruses", "a.md", "Walruses swim.")]


def test_text_that_is_no_utf_8_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    (tmp_path / "old.txt").write_bytes(b"Walruses sleep in caf\xe9s.")
    assert open_corpus(tmp_path).search("walruses")[0].text == "Walruses sleep in caf\ufffds."


def test_a_folder_that_is_missing_empty_or_a_file_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file.md").write_text("text")
    for place, fault in (
        (tmp_path / "none", "no such folder"),
        (tmp_path / "file.md", "no such folder"),
        (tmp_path / "empty", r"no \.md or \.txt"),
    ):
        with pytest.raises(UsageError, match=f"--corpus {place}: {fault}"):
            open_corpus(place)


# ---- Results as text


LINES = st.text("abc Ünï-?!.,;()[]", min_size=1, max_size=20).map(lambda t: " ".join(t.split())).filter(bool)


@given(st.lists(st.builds(Passage, LINES, st.sampled_from(["a.md", "b/c-d.txt"]), LINES), min_size=1, max_size=5))
def test_results_are_read_back_as_they_were_rendered(passages: list[Passage]) -> None:
    assert parse_passages(passages_text("q", passages)) == passages


def test_every_result_of_the_packaged_corpus_is_read_back() -> None:
    found = open_corpus().search("language", 200)
    assert parse_passages(passages_text("language", found)) == found


def test_no_results_are_read_back_as_none() -> None:
    assert passages_text("walruses", []) == "No results for 'walruses'."
    assert parse_passages(passages_text("walruses", [])) == []


def test_another_tool_s_output_gives_one_passage_a_paragraph() -> None:
    assert parse_passages("One\nparagraph.\n\n\n\nAnother.") == [
        Passage("result", "", "One paragraph."),
        Passage("result", "", "Another."),
    ]
    assert parse_passages("") == []
