"""An embedded proposer: it writes instructions from what the embedded judge measured. Not a language model."""

from collections.abc import Mapping, Sequence

from harness.offline.model import FORBIDS_SEARCH
from harness.offline.tool import split_sentences

_SEARCH_FIRST = "Search for what you are asked about, before you write."
_ADVICE = {
    "understanding": _SEARCH_FIRST,
    "logic": _SEARCH_FIRST,
    "richness": "Search for several sides of the subject.",
    "relevance": "Name the subject in the words of the request.",
    "content_quality": "Write what the search results say, and nothing else.",
    "language_style": "Write sentences of ten to thirty words.",
    "clarity": "Write two to four paragraphs, in the order of time.",
}
"""What mends a low mark in each dimension."""
_LOW = 5.0


def rewritten(text: str, marks: Sequence[Mapping[str, float]], count: int) -> list[str]:
    """Return at most `count` new texts for instructions whose rollouts got these marks, by dimension.

    The lowest marks are mended first: where they are those of the path, a sentence that forbids to search is left out.
    """
    names = dict.fromkeys(name for each in marks for name in each if name in _ADVICE)
    means = {name: sum(each.get(name, 10.0) for each in marks) / len(marks) for name in names}
    sentences, texts = [line for block in text.split("\n") for line in (split_sentences(block) or [""])], list[str]()
    for name in sorted(means, key=lambda name: means[name]):
        searched = _ADVICE[name].startswith("Search") and means[name] < _LOW
        kept = [line for line in sentences if not (searched and FORBIDS_SEARCH.search(line))]
        new = "\n".join([*kept, _ADVICE[name]]).strip()
        if _ADVICE[name] not in text and new not in texts:
            texts.append(new)
    return texts[:count]


def joined_texts(text: str, other: str) -> str:
    """Return the sentences of two texts, those of the first one first, each once; none forbids what the other asks."""
    lines = dict.fromkeys([*text.split("\n"), *other.split("\n")])
    if not all(FORBIDS_SEARCH.search(each) for each in (text, other)):
        lines = dict.fromkeys(line for line in lines if not FORBIDS_SEARCH.search(line))
    return "\n".join(lines).strip()
