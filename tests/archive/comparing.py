"""Comparisons on disk, made for a test: whole, and such that every line agrees with the verdicts."""

from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from harness.archive.comparison_reader import ComparisonHead, ComparisonInfo
from harness.archive.store import ComparisonStore
from harness.core.comparisons import ComparedQuery, ComparedRollout, ComparedSide, CrossMatch
from harness.transcripts.transcript import Transcript
from tests.builders import AT, a_judged

__all__ = [
    "a_comparison",
    "a_comparison_head",
    "a_comparison_info",
    "a_filled_comparison",
    "a_side",
    "compared_query",
    "fill",
]


def a_side(label: str = "A", **changes: Any) -> ComparedSide:
    plain: dict[str, Any] = {
        "label": label,
        "run": f"run-{label.lower()}",
        "sha256": label.lower() * 64,
        "basis": "basis",
        "agent": "search",
        "models": ("m",),
    }
    return ComparedSide(**plain | changes)


def a_comparison_info(comparison_id: str = "comparison-1", **changes: Any) -> ComparisonInfo:
    plain: dict[str, Any] = {
        "schema_version": 1,
        "id": comparison_id,
        "created_at": AT,
        "sides": (a_side("A"), a_side("B")),
        "settings": {},
        "judge": {"identity": "m"},
        "rubric": "by-hand@1",
        "pairs": 2,
        "offline": False,
        "versions": {"arena-harness": "0.2.0"},
    }
    return ComparisonInfo(**plain | changes)


def a_comparison(runs_dir: Path, comparison_id: str = "comparison-1", **changes: Any) -> ComparisonStore:
    return ComparisonStore.create(runs_dir, a_comparison_info(comparison_id, **changes))


def a_filled_comparison(
    runs_dir: Path, comparison_id: str = "comparison-1", queries: int = 3, *, finish: bool = True, **changes: Any
) -> Path:
    """Make a comparison with some queries and close it."""
    with a_comparison(runs_dir, comparison_id, **changes) as store:
        fill(store, queries, finish=finish)
    return store.folder


def a_comparison_head(store: ComparisonStore, file_id: str = "file-1", at: datetime = AT) -> ComparisonHead:
    sides = store.reader.info.sides
    return ComparisonHead(id=file_id, created_at=at, sides=sides, floors=(None,) * len(sides))


def fill(
    store: ComparisonStore, queries: int, *, file_id: str = "file-1", at: datetime = AT, finish: bool = True
) -> list[ComparedQuery]:
    """Write a file with some queries: B wins the even ones, loses the others."""
    writer = store.open_comparison(a_comparison_head(store, file_id, at))
    written = [compared_query(store, f"q{i}", "second" if i % 2 == 0 else "first") for i in range(queries)]
    for query in written:
        writer.add(query)
    if finish:
        writer.finish()
    writer.close()
    return written


def compared_query(
    store: ComparisonStore, name: str, winner: Literal["first", "second"] = "second", judge: str = "scripted"
) -> ComparedQuery:
    """Judge sample 1 of both sides, and write the verdicts of both orders."""
    shown = {side: Transcript(f"path of {side} {name}", f"answer of {side} {name}") for side in ("first", "second")}
    texts = {side: (store.put_blob(t.path), store.put_blob(t.answer)) for side, t in shown.items()}
    high, low = 8.0, 5.0
    keys, scores = [f"{name}-ab", f"{name}-ba"], [(high, low) if winner == "first" else (low, high)] * 2
    for key, (a, b), sides in zip(keys, scores, (("first", "second"), ("second", "first")), strict=True):
        marks = {"first": a, "second": b}
        verdict = a_judged(
            key,
            marks[sides[0]],
            marks[sides[1]],
            query=name,
            first=shown[sides[0]].hash,
            second=shown[sides[1]].hash,
            judge=judge,
            raw_replies=(store.put_blob(f"{{{key}}}"),),
        )
        store.add_verdict(verdict)
    match = CrossMatch(
        sides=(0, 1),
        role="sample",
        first=1,
        second=1,
        verdicts=tuple(keys),
        shown_first=("first", "second"),
        scores=tuple(scores),
        score_first=scores[0][0],
        score_second=scores[0][1],
        winner=winner,
    )
    rollouts = [_rollouts(shown[side], *texts[side]) for side in ("first", "second")]
    return ComparedQuery(
        query=name, ids=(name, name), text=f"Why {name}?", rollouts=tuple(rollouts), matches=(match,), left_out=(0, 0)
    )


def _rollouts(shown: Transcript, path: str, answer: str) -> tuple[ComparedRollout, ...]:
    sample = ComparedRollout(
        index=1,
        role="sample",
        status="ok",
        usd=0.01,
        tokens=100,
        duration_s=1.5,
        steps=1,
        answer_length=len(shown.answer),
        transcript=shown.hash,
        path_blob=path,
        answer_blob=answer,
    )
    return (sample,)
