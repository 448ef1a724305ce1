"""`offline-features`: a judge that measures. It answers in the JSON that every pairwise judge is asked for."""

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

from harness.offline.tool import content_stems, first_year, keywords, parse_passages, split_sentences, split_words, stem
from harness.transcripts.transcript import Transcript

_STEP = re.compile(r"^Step \d+ \(.*\)$", re.MULTILINE)
_BAR = re.compile(r"^\| ?", re.MULTILINE)
_LIMIT = re.compile(r"(?:under|at most|no more than|within|up to|below) (\d{2,5}) words", re.IGNORECASE)
_LEAK = re.compile(r"</?think>|^\s*(?:Thought|Action|Observation):|\[\d+\] .* \(.*\.(?:md|txt)\)$", re.MULTILINE)


@dataclass(frozen=True)
class TranscriptParts:
    """A transcript taken apart: searches, what each brought, the answer's sentences."""

    query: str
    brief: str | None
    transcript: Transcript

    @cached_property
    def wanted(self) -> set[str]:
        """Stems of the request's key words."""
        return {stem(k) for k in keywords(self.query)}

    @cached_property
    def searches(self) -> list[frozenset[str]]:
        """Stems of each tool call's input."""
        inputs = re.findall(r"^Input:(.*(?:\n\|.*)*)", self.transcript.path, re.MULTILINE)
        return [content_stems(_BAR.sub("", text)) for text in inputs]

    @cached_property
    def outputs(self) -> list[str]:
        """Each tool call's output."""
        steps = [s.partition("\nOutput:")[2] for s in _STEP.split(self.transcript.path) if "\nOutput:" in s]
        return [_BAR.sub("", output.lstrip(" \n")) for output in steps]

    @cached_property
    def sources(self) -> dict[str, set[str]]:
        """Stems found, by the article they stand in."""
        sources: dict[str, set[str]] = {}
        for output in self.outputs:
            for passage in parse_passages(output):
                sources.setdefault(passage.title, set()).update(content_stems(passage.text))
        return sources

    @cached_property
    def sentences(self) -> list[str]:
        """The answer's sentences."""
        return split_sentences(self.transcript.answer)


def path_features(parts: TranscriptParts) -> Mapping[str, float]:
    """Return coverage of the request by the searches, their order, and how much they brought and was used.

    - understanding: share of the request's key words that some search looks for;
    - logic: mean of: share of searches unlike every earlier one; share that brought something; whether the first
      one looks for the request itself;
    - richness: articles found (eight is full), and the share of them that the answer draws on, averaged.
    """
    searched = set[str]().union(*parts.searches)
    distinct = [s for i, s in enumerate(parts.searches) if s not in parts.searches[:i]]
    fruitful = [o for o in parts.outputs if parse_passages(o)]
    first = parts.searches[0] if parts.searches else frozenset[str]()
    used = {_source(s, parts.sources) for s in parts.sentences} - {None}
    unlike = _share(len(distinct), len(parts.searches))
    successful = _share(len(fruitful), len(parts.searches))
    first_on_request = _share(len(first & parts.wanted), len(parts.wanted))
    return {
        "understanding": _share(len(searched & parts.wanted), len(parts.wanted)),
        "logic": (unlike + successful + first_on_request) / 3,
        "richness": (min(1.0, len(parts.sources) / 8) + _share(len(used), len(parts.sources))) / 2,
    }


def answer_features(parts: TranscriptParts) -> Mapping[str, float]:
    """Return what the answer is worth by what can be counted.

    - relevance: share of the request's key words in the answer, and of its sentences that touch one, averaged;
    - content_quality: share of sentences whose words one found article bears out, and different articles drawn on
      (six is full), averaged; left out where no path is shown;
    - language_style: 1 less the share of repeated four-word runs (twice over), less distance of the mean sentence
      length from 10..30 words; 0 for leaked working such as `<think>`;
    - clarity: mean of: length within the brief (else within 600 words); two to four paragraphs; years in order.
    """
    answer_stems = content_stems(parts.transcript.answer)
    touching = [s for s in parts.sentences if content_stems(s) & parts.wanted]
    borne_out = [source for s in parts.sentences if (source := _source(s, parts.sources))]
    words_named = _share(len(answer_stems & parts.wanted), len(parts.wanted))
    sentences_touching = _share(len(touching), len(parts.sentences))
    features = {
        "relevance": (words_named + sentences_touching) / 2,
        "content_quality": (_share(len(borne_out), len(parts.sentences)) + min(1.0, len(set(borne_out)) / 6)) / 2,
        "language_style": _style(parts),
        "clarity": _clarity(parts),
    }
    if not parts.transcript.path:  # not shown: the answers alone are judged
        del features["content_quality"]
    return features


def _source(sentence: str, sources: Mapping[str, set[str]]) -> str | None:
    """Return the article that holds at least four fifths of a sentence's words, or None."""
    stems = content_stems(sentence)
    best = max(sources, key=lambda t: len(stems & sources[t]), default=None)
    if best is None or not stems or len(stems & sources[best]) < 0.8 * len(stems):
        return None
    return best


def _style(parts: TranscriptParts) -> float:
    answer = split_words(parts.transcript.answer)
    if not answer or _LEAK.search(parts.transcript.answer):
        return 0.0
    runs = Counter(zip(*(answer[i:] for i in range(4)), strict=False))
    repeated = sum(n - 1 for n in runs.values()) / max(1, sum(runs.values()))
    mean = len(answer) / max(1, len(parts.sentences))
    off = max(0.0, 10 - mean, mean - 30) / 20
    return max(0.0, 1 - 2 * repeated - off)


def _clarity(parts: TranscriptParts) -> float:
    answer = parts.transcript.answer
    count, stated = len(answer.split()), _LIMIT.search(parts.brief or "")
    limit = int(stated[1]) if stated else 600
    # 1 within the limit and above a third of it; falling off on both sides
    length = max(0.0, 1 - 3 * (count - limit) / limit) if count > limit else min(1.0, 3 * count / limit)
    paragraphs = len([p for p in answer.split("\n\n") if p.strip()])
    form = 1.0 if 2 <= paragraphs <= 4 else 0.5 if paragraphs else 0.0
    pairs = list(pairwise(y for s in parts.sentences if (y := first_year(s))))
    ordered = sum(a <= b for a, b in pairs) / len(pairs) if pairs else 0.5 if parts.sentences else 0.0
    return (length + form + ordered) / 3


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


_CONTRAST = 4.0
"""Marks that a whole feature's lead is worth on top: a pairwise judge marks each side in view of the other."""


def judge_pair(
    query: str, brief: str | None, first: Transcript, second: Transcript, *, path: Sequence[str], answer: Sequence[str]
) -> str:
    """Return a reply: a mark 0..10 for every dimension of `path` and `answer` and side, the measurements as analysis.

    A dimension named like a feature gets that feature's mark; any other the mean of its block's features. It has
    no position bias: swapping the sides swaps the marks. A block without keys is not measured.
    """
    sides = [TranscriptParts(query, brief, t) for t in (first, second)]
    reply: dict[str, Any] = {"analysis": {}}
    for block, keys, measure in (("path", path, path_features), ("answer", answer, answer_features)):
        if not keys:
            continue
        measured = [measure(side) for side in sides]
        reply[f"{block}_scores"] = {
            "LLM_A": _marks(keys, measured[0], measured[1]),
            "LLM_B": _marks(keys, measured[1], measured[0]),
        }
        for side, features in zip("AB", measured, strict=True):
            measures = ", ".join(f"{name} {value:.2f}" for name, value in features.items())
            reply["analysis"][f"{block}_{side}"] = f"Measured: {measures}."
    return json.dumps(reply)


def judge_list(query: str, brief: str | None, shown: Sequence[tuple[str, Transcript]]) -> str:
    """Return a listwise reply for ids and transcripts: 0.4 x mean path feature + 0.6 x mean answer feature.

    The scale is absolute, to three decimals: a score does not depend on the others in the list, nor on its place.
    """
    scores: list[dict[str, Any]] = []
    for id_, transcript in shown:
        side = TranscriptParts(query, brief, transcript)
        path, answer = path_features(side), answer_features(side)
        score = 0.4 * sum(path.values()) / len(path) + 0.6 * sum(answer.values()) / len(answer)
        measures = ", ".join(f"{name} {value:.2f}" for name, value in {**path, **answer}.items())
        scores.append({"trajectory_id": id_, "explanation": f"Measured: {measures}.", "score": round(score, 3)})
    return json.dumps({"scores": scores})


def _marks(keys: Sequence[str], side: Mapping[str, float], other: Mapping[str, float]) -> dict[str, int]:
    marks = dict[str, int]()
    for key in keys:
        ours, theirs = (features.get(key, sum(features.values()) / len(features)) for features in (side, other))
        marks[key] = max(0, min(10, math.floor(round(10 * ours + _CONTRAST * (ours - theirs), 9) + 0.5)))
    return marks
