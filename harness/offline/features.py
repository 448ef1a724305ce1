"""What the embedded judge measures, each feature from 0 to 1, read off a transcript's text alone."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from harness.offline.tool import parse
from harness.offline.words import content_words, first_year, keywords, sentences, stem, words
from harness.transcripts import Transcript

_STEP = re.compile(r"^Step \d+ \(.*\)$", re.MULTILINE)
_LIMIT = re.compile(r"(?:under|at most|no more than|within|up to|below) (\d{2,5}) words", re.IGNORECASE)
_LEAK = re.compile(r"</?think>|^\s*(?:Thought|Action|Observation):|\[\d+\] .* \(.*\.(?:md|txt)\)$", re.MULTILINE)
_USUAL_LIMIT = 600


@dataclass(frozen=True)
class Reading:
    """A transcript taken apart: searches, what each brought, the answer's sentences."""

    query: str
    brief: str | None
    transcript: Transcript

    @cached_property
    def wanted(self) -> set[str]:
        """Stems of the request's key words."""
        return {stem(k) for k in keywords(self.query)}

    @cached_property
    def searches(self) -> list[set[str]]:
        """Stems of each tool call's input."""
        return [set(content_words(line[7:])) for line in self.transcript.path.split("\n") if line.startswith("Input: ")]

    @cached_property
    def outputs(self) -> list[str]:
        """Each tool call's output."""
        return [s.partition("\nOutput:\n")[2] for s in _STEP.split(self.transcript.path) if "\nOutput:\n" in s]

    @cached_property
    def sources(self) -> dict[str, set[str]]:
        """Stems found, by the article they stand in."""
        found: dict[str, set[str]] = {}
        for output in self.outputs:
            for passage in parse(output):
                found.setdefault(passage.title, set()).update(content_words(passage.text))
        return found

    @cached_property
    def sentences(self) -> list[str]:
        """The answer's sentences."""
        return sentences(self.transcript.answer)


def path_features(r: Reading) -> Mapping[str, float]:
    """Return coverage of the request by the searches, their order, and how much they brought and was used.

    - understanding: share of the request's key words that some search asks for;
    - logic: mean of: share of searches unlike every earlier one; share that brought something; whether the first
      one asks for the request itself;
    - richness: articles found (eight is full), and the share of them that the answer draws on, averaged.
    """
    asked = set[str]().union(*r.searches)
    distinct = [s for i, s in enumerate(r.searches) if s not in r.searches[:i]]
    fruitful = [o for o in r.outputs if parse(o)]
    first = r.searches[0] if r.searches else set[str]()
    used = {_source(s, r.sources) for s in r.sentences} - {None}
    return {
        "understanding": _share(len(asked & r.wanted), len(r.wanted)),
        "logic": (
            _share(len(distinct), len(r.searches))
            + _share(len(fruitful), len(r.searches))
            + _share(len(first & r.wanted), len(r.wanted))
        )
        / 3,
        "richness": (min(1.0, len(r.sources) / 8) + _share(len(used), len(r.sources))) / 2,
    }


def answer_features(r: Reading) -> Mapping[str, float]:
    """Return what the answer is worth by what can be counted.

    - relevance: share of the request's key words in the answer, and of its sentences that touch one, averaged;
    - content_quality: share of sentences whose words one found article bears out, and different articles drawn on
      (six is full), averaged; left out where no path is shown;
    - language_style: 1 less the share of repeated four-word runs (twice over), less distance of the mean sentence
      length from 10..30 words; 0 for leaked working such as `<think>`;
    - clarity: mean of: length within the brief (else within 600 words); two to four paragraphs; years in order.
    """
    said = set(content_words(r.transcript.answer))
    touching = [s for s in r.sentences if set(content_words(s)) & r.wanted]
    borne_out = [source for s in r.sentences if (source := _source(s, r.sources))]
    told = {
        "relevance": (_share(len(said & r.wanted), len(r.wanted)) + _share(len(touching), len(r.sentences))) / 2,
        "content_quality": (_share(len(borne_out), len(r.sentences)) + min(1.0, len(set(borne_out)) / 6)) / 2,
        "language_style": _style(r),
        "clarity": (_length(r) + _form(r.transcript.answer) + _order(r.sentences)) / 3,
    }
    if not r.transcript.path:  # not shown: the answers alone are judged
        del told["content_quality"]
    return told


def _source(sentence: str, sources: Mapping[str, set[str]]) -> str | None:
    """Return the article that holds at least four fifths of a sentence's words, or None."""
    own = set(content_words(sentence))
    best = max(sources, key=lambda t: len(own & sources[t]), default=None)
    return best if best is not None and own and len(own & sources[best]) >= 0.8 * len(own) else None


def _style(r: Reading) -> float:
    answer = words(r.transcript.answer)
    if not answer or _LEAK.search(r.transcript.answer):
        return 0.0
    runs = Counter(zip(*(answer[i:] for i in range(4)), strict=False))
    repeated = sum(n - 1 for n in runs.values()) / max(1, sum(runs.values()))
    mean = len(answer) / max(1, len(r.sentences))
    off = max(0.0, 10 - mean, mean - 30) / 20
    return max(0.0, 1 - 2 * repeated - off)


def _length(r: Reading) -> float:
    """1 within the limit and above a third of it; falling off on both sides."""
    count = len(r.transcript.answer.split())
    stated = _LIMIT.search(r.brief or "")
    limit = int(stated[1]) if stated else _USUAL_LIMIT
    if count > limit:
        return max(0.0, 1 - 3 * (count - limit) / limit)
    return min(1.0, 3 * count / limit)


def _form(answer: str) -> float:
    count = len([p for p in answer.split("\n\n") if p.strip()])
    return 1.0 if 2 <= count <= 4 else 0.5 if count else 0.0


def _order(told: Sequence[str]) -> float:
    years = [y for s in told if (y := first_year(s))]
    pairs = list(pairwise(years))
    return _share(sum(a <= b for a, b in pairs), len(pairs)) if pairs else 0.5 if told else 0.0


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
