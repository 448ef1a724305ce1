"""Words, sentences and the little knowledge of English that the embedded parts share."""

import re
from functools import lru_cache

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


def content_stems(text: str) -> list[str]:
    """Return the stems of the words that carry meaning, in order."""
    return [stem(w) for w in split_words(text) if w not in STOP_WORDS and len(w) > 1]


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
    heading = set(content_stems(title))
    held = heading | set(content_stems(text))
    share = sum(weight for word, weight in wanted.items() if word in held) / sum(wanted.values()) if wanted else 0.0
    return share > 0.5 or (share == 0.5 and not heading.isdisjoint(wanted))


def first_year(text: str) -> int | None:
    """Return the first year named in `text`."""
    year = _YEAR.search(text)
    return int(year[1]) if year else None
