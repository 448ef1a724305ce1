"""`offline-features`: a judge that measures. It answers in the JSON that every pairwise judge is asked for."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from harness.offline.features import TranscriptParts, answer_features, path_features
from harness.transcripts.transcript import Transcript

_CONTRAST = 4.0
"""Marks that a whole feature's lead is worth on top: a pairwise judge marks each side in view of the other."""


def judge_pair(
    query: str,
    brief: str | None,
    first: Transcript,
    second: Transcript,
    *,
    path_keys: Sequence[str],
    answer_keys: Sequence[str],
) -> str:
    """Return a reply: a mark 0..10 for every dimension and side, and the measurements as analysis.

    A dimension named like a feature gets that feature's mark; any other the mean of its block's features. It has
    no position bias: swapping the sides swaps the marks. A block without keys is not measured.
    """
    sides = [TranscriptParts(query, brief, t) for t in (first, second)]
    reply: dict[str, Any] = {"analysis": {}}
    for block, keys, measure in (("path", path_keys, path_features), ("answer", answer_keys, answer_features)):
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
    return {key: _mark(_feature(key, side), _feature(key, other)) for key in keys}


def _feature(key: str, features: Mapping[str, float]) -> float:
    return features.get(key, sum(features.values()) / len(features))


def _mark(side: float, other: float) -> int:
    lead = _CONTRAST * (side - other)
    return max(0, min(10, math.floor(round(10 * side + lead, 9) + 0.5)))
