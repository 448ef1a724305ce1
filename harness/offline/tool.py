"""The local search tool, and the little knowledge of English that the embedded parts share."""

import re
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import as_file, files
from pathlib import Path

from agents import FunctionTool, function_tool

from harness.core.errors import UsageError, on_a_line, option
from harness.core.user_files import is_folder

_WORD = re.compile(r"[^\W_][\w+#'-]*")
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[^\W\d_a-z]|\d)")
NAME = re.compile(r"(?<=[a-z,;] )[A-Z][\w+#-]+")
"""A capitalised word that does not begin a sentence."""
_YEAR = re.compile(r"\b(1[6-9]\d\d|20\d\d)s?\b")

STOP_WORDS = frozenset(
    "a about after all also although an and any are as at be because been before being between both but by can could "
    "did do does during each either else even every few for from give given had has have having he her his how i if "
    "in into is it its just like made make many may me more most much must my new no nor not now of off on once one "
    "only or other our out over own same she should since so some still such than that the their them then there "
    "these they this those though through to too two under until up upon us use used using very was we well were what "
    "when where which while who whom whose why will with within without would you your".split()
)
TASK_WORDS = frozenset(
    "answer article brief compare describe detail detailed discuss essay examine explain find give list outline "
    "overview paper paragraph please report research say summarise summarize summary tell topic write writing".split()
)
"""Words that say what to do, not what to look for."""

GENERAL_WORDS = frozenset(
    "best better change development effect evolution example future guide history idea impact importance influence "
    "modern role story today trend way work".split()
)
"""Words that fit any subject: a passage that shares only these with a request is not about it."""


def split_words(text: str) -> list[str]:
    """Return the words of `text`, lower case, in order."""
    return [w.lower().strip("'-") for w in _WORD.findall(text)]


def stem(word: str) -> str:
    """Return a crude stem: plural and a few common endings off, so that `language` and `languages` are one word."""
    for ending in ("ies", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 4 and not word.endswith("ss"):
            return word.removesuffix(ending) + ("y" if ending == "ies" else "e" if ending == "es" else "")
    return word


@lru_cache(maxsize=4096)  # every rollout and every verdict of a query reads the same sentences
def content_stems(text: str) -> frozenset[str]:
    """Return the stems of the words that carry meaning."""
    return frozenset(stem(w) for w in split_words(text) if w not in STOP_WORDS and len(w) > 1)


@lru_cache(maxsize=16)  # asked again for each passage, and a request may be long
def keywords(query: str) -> tuple[str, ...]:
    """Return the words of a request that say what it is about, each once, as written."""
    distinct = tuple(dict.fromkeys(split_words(query)))
    return tuple(w for w in distinct if w not in STOP_WORDS and w not in TASK_WORDS and len(w) > 1) or distinct


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a text."""
    return [s.strip() for s in _SENTENCE.split(" ".join(text.split())) if s.strip()]


def is_about(query: str, title: str, text: str) -> bool:
    """Return whether a passage holds more than half of what `query` is about, or half of it with a word in its title.

    General words count little.
    """
    wanted = {stem(k): 0.3 if k in GENERAL_WORDS else 1.0 for k in keywords(query)}
    heading = content_stems(title)
    held = heading | content_stems(text)
    share = sum(weight for word, weight in wanted.items() if word in held) / sum(wanted.values()) if wanted else 0.0
    return share > 0.5 or (share == 0.5 and not heading.isdisjoint(wanted))


def first_year(text: str) -> int | None:
    """Return the first year named in `text`."""
    year = _YEAR.search(text)
    return int(year[1]) if year else None


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
