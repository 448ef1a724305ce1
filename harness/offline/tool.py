"""The local search tool: what an agent has where no hosted web search exists."""

from pathlib import Path

from agents import FunctionTool, function_tool

from harness.offline.corpus import Passage, open_corpus

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
