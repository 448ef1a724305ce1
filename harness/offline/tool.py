"""The local search tool: what an agent has where no hosted web search exists."""

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import as_file, files
from pathlib import Path

from agents import FunctionTool, function_tool

from harness.core.errors import UsageError, on_a_line
from harness.core.user_files import is_folder
from harness.core.wording import option
from harness.offline.words import STOP_WORDS, split_words


@dataclass(frozen=True)
class Passage:
    """One paragraph, and the article that it is part of."""

    title: str
    file: str
    text: str


class PassageIndex:
    """An in-memory index over passages."""

    def __init__(self, passages: Iterable[Passage]) -> None:
        """Index `passages`. Raises UsageError where this Python's SQLite has no FTS5."""
        self._db = sqlite3.connect(":memory:", check_same_thread=False)
        try:
            self._db.execute("CREATE VIRTUAL TABLE passages USING fts5(title, text, file UNINDEXED, tokenize='porter')")
        except sqlite3.OperationalError as exc:
            raise UsageError(f"the local corpus needs SQLite with FTS5, which this Python lacks ({exc})") from exc
        rows = ((p.title, p.text, p.file) for p in passages)
        self._db.executemany("INSERT INTO passages (title, text, file) VALUES (?, ?, ?)", rows)

    def search(self, query: str, limit: int = 5) -> list[Passage]:
        """Return the passages that fit any word of `query` best (bm25, a title's word counting three times)."""
        search_words = [w.replace('"', "") for w in dict.fromkeys(split_words(query)) if w not in STOP_WORDS]
        if not search_words:
            return []
        match = " OR ".join(f'"{w}"' for w in search_words)
        rows = self._db.execute(
            "SELECT title, file, text FROM passages WHERE passages MATCH ? "
            "ORDER BY bm25(passages, 3.0, 1.0), rowid LIMIT ?",
            (match, limit),
        )
        return [Passage(*row) for row in rows]


@cache
def open_corpus(folder: Path | None = None) -> PassageIndex:
    """Return the corpus in `folder` (`.md` and `.txt`, at any depth), or the packaged one.

    Raises UsageError where the folder is missing or has no such file.
    """
    if folder is not None:
        return PassageIndex(_passages(folder))
    with as_file(files("harness.offline") / "corpus") as packaged:
        return PassageIndex(_passages(packaged))


def _passages(folder: Path) -> list[Passage]:
    name = option("corpus", on_a_line(folder))
    if not is_folder(folder):
        raise UsageError(f"{name}: no such folder")
    paths = sorted(p for p in folder.rglob("*") if p.suffix.lower() in {".md", ".txt"} and p.is_file())
    if not paths:
        raise UsageError(f"{name}: no .md or .txt file in it")
    passages: list[Passage] = []
    for path in paths:
        title = path.stem.replace("-", " ").replace("_", " ")
        for block in path.read_text("utf-8-sig", errors="replace").split("\n\n"):
            first, _, rest = block.strip().partition("\n")
            headed = first.startswith("# ")
            title = first.lstrip("# ") if headed else title
            text = " ".join((rest if headed else block).split())
            if text and not text.startswith("Sources:"):
                passages.append(Passage(title, str(path.relative_to(folder)), text))
    return passages


_NO_RESULTS = "No results for"


def search_tool(corpus: Path | None = None) -> FunctionTool:
    """Return a function tool `search` over the packaged corpus, or the text files in `corpus`."""
    index = open_corpus(corpus)

    @function_tool
    async def search(query: str) -> str:
        """Search a local library of articles and return the passages that fit best.

        Args:
            query: A few words to look for.
        """
        return passages_text(query, index.search(query))

    return search


def passages_text(query: str, passages: list[Passage]) -> str:
    """Return search results as the text that the model reads."""
    if not passages:
        return f"{_NO_RESULTS} {query!r}."
    return "\n\n".join(f"[{i}] {p.title} ({p.file})\n{p.text}" for i, p in enumerate(passages, 1))


def parse_passages(output: str) -> list[Passage]:
    """Read the text of `passages_text` back; other text gives one passage a paragraph, under the title "result"."""
    passages: list[Passage] = []
    for block in output.split("\n\n"):
        head, _, text = block.partition("\n")
        if head.startswith("[") and head.endswith(")") and text:
            title, _, file = head.partition("] ")[2].rpartition(" (")
            passages.append(Passage(title, file.rstrip(")"), text))
        elif block.strip() and not block.startswith(_NO_RESULTS):
            passages.append(Passage("result", "", " ".join(block.split())))
    return passages
