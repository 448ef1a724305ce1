"""Comparisons by hand: queries on which sides met, with verdicts and texts, and what a comparison says of them."""

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.archive.comparison_reader import ComparisonHead, ComparisonInfo, ComparisonReader
from harness.archive.store import ComparisonStore
from harness.core.comparisons import (
    ComparedQuery,
    ComparedRollout,
    ComparedSide,
    Comparison,
    CrossMatch,
    Interval,
    SideFigures,
    SideResult,
    Slice,
    Strength,
)
from harness.core.rankings import Judged, SideScores
from harness.core.records import FailureKind, digest
from tests.builders import AT, a_judged

Margins = tuple[float, ...]
"""For each pair of samples, the score of the second side above the first one's."""
PATH_MARKS, ANSWER_MARKS = ("understanding", "logic", "richness"), ("relevance", "clarity")


@dataclass
class MadeComparison:
    """A comparison with what its folder would hold beside it."""

    comparison: Comparison
    queries: tuple[ComparedQuery, ...]
    verdicts: dict[str, Judged]
    blobs: dict[str, str]


@dataclass
class Writer:
    """Makes the queries of a comparison, and keeps the verdicts and texts that they name; `evil` is in every text."""

    evil: str = ""
    verdicts: dict[str, Judged] = field(default_factory=dict[str, Judged])
    blobs: dict[str, str] = field(default_factory=dict[str, str])

    def query(
        self, number: int, margins: Margins, *, failed: FailureKind | None = None, sides: int = 2, open_pairs: int = 0
    ) -> ComparedQuery:
        """Return a query with an anchors' pair and a pair for each margin; with `failed`, B's last sample failed."""
        samples = range(1, len(margins) + open_pairs + 1)
        rollouts = tuple(
            tuple(
                self.rollout(number, side, index, failed if side == 1 and index == len(margins) else None)
                for index in (0, *samples)
            )
            for side in range(sides)
        )
        matches = [self.match(number, rollouts, (0, 1), 0, 0.2)]
        for first in range(sides):
            for second in range(first + 1, sides):
                matches += [
                    self.match(number, rollouts, (first, second), i, margin) for i, margin in enumerate(margins, 1)
                ]
        matches += [CrossMatch(sides=(0, 1), role="sample", first=i, second=i) for i in samples if i > len(margins)]
        return ComparedQuery(
            query=digest(number),
            ids=(f"q{number}{self.evil}",) * sides,
            text=f"Why is the sky blue on planet {number}? {self.evil}",
            metadata={"topic": "sky" if number % 2 else "sea"},
            rollouts=rollouts,
            matches=tuple(matches),
        )

    def rollout(self, number: int, side: int, index: int, failed: FailureKind | None) -> ComparedRollout:
        label = "ABCDE"[side]
        answer = f"Answer {index} of side {label} to query {number}. " + "Light is scattered. " * (2 + side) + self.evil
        path = f"Step 1: search\nInput: {{}}\nOutput: Air scatters blue light.\n{self.evil}"
        return ComparedRollout(
            index=index,
            role="sample" if index else "anchor",
            status="failed" if failed else "ok",
            failure=failed,
            usd=0.002 + 0.001 * side,
            tokens=1800 + 100 * index,
            duration_s=11.5,
            steps=1,
            tools=("search",),
            answer_length=len(answer),
            transcript=digest([answer, path]),
            path_blob=self.blob(path),
            answer_blob=None if failed else self.blob(answer),
        )

    def blob(self, text: str) -> str:
        name = hashlib.sha256(text.encode()).hexdigest()
        self.blobs[name] = text
        return name

    def match(
        self,
        number: int,
        rollouts: Sequence[Sequence[ComparedRollout]],
        sides: tuple[int, int],
        index: int,
        margin: float,
    ) -> CrossMatch:
        first, second = (rollouts[side][index] for side in sides)
        plain: dict[str, Any] = {
            "sides": sides,
            "role": first.role,
            "first": index,
            "second": index,
        }
        if second.failure:
            return CrossMatch(**plain, forfeit="second", winner="first")
        low, high = 6.0, round(6.0 + margin, 2)
        shown = ("first", "second")
        verdicts = [self.verdict([number, *sides, index, who], who == "first", low, high) for who in shown]
        return CrossMatch(
            **plain,
            verdicts=tuple(v.key for v in verdicts),
            shown_first=shown,
            scores=((low, high),) * 2,
            score_first=low,
            score_second=high,
            winner="tie" if low == high else "first" if low > high else "second",
        )

    def verdict(self, name: list[Any], first_is_a: bool, low: float, high: float) -> Judged:
        a, b = (low, high) if first_is_a else (high, low)
        words = {
            f"{block}_{side}": f"The {block} of {side} names its source. {self.evil}"
            for block in ("path", "answer")
            for side in "AB"
        }
        key = digest(name)
        judged = a_judged(key, a, b, analysis=words, judge=f"gpt-5-mini {self.evil}".strip())
        self.verdicts[key] = judged.model_copy(update={"a": _side_scores(a), "b": _side_scores(b)})
        return self.verdicts[key]


def _side_scores(combined: float) -> SideScores:
    mark = max(0, min(10, round(combined)))
    return SideScores(
        dimensions=dict.fromkeys(PATH_MARKS + ANSWER_MARKS, mark), path=mark, answer=mark, combined=combined
    )


def a_side(label: str, evil: str = "", **changes: Any) -> ComparedSide:
    plain: dict[str, Any] = {
        "label": label,
        "run": f"20260721T140320-search-{label.lower()}b3c",
        "sha256": digest(label),
        "basis": digest([label]),
        "agent": f"search{evil}",
        "models": (f"gpt-5{evil}",),
        "instructions": f"Search first.\nThen answer in {250 if label == 'A' else 100} words.\nName the source.{evil}",
        "instructions_file": f"prompts/{label.lower()}.txt{evil}",
    }
    return ComparedSide(**plain | changes)


def a_result(queries: Sequence[ComparedQuery], sides: tuple[int, int] = (0, 1), **changes: Any) -> SideResult:
    """Return the counts of two sides; the intervals are made up."""
    outcomes = [outcome for query in queries if (outcome := query.outcome(sides)) is not None]
    mean = sum(outcomes) / len(outcomes) if outcomes else 0.5
    pairs = [match for query in queries for match in query.pairs(sides)]
    plain: dict[str, Any] = {
        "sides": ("ABCDE"[sides[0]], "ABCDE"[sides[1]]),
        "queries": len(outcomes),
        "clusters": len(outcomes),
        "pairs": sum(match.outcome is not None for match in pairs),
        "better": sum(outcome > 0.5 for outcome in outcomes),
        "worse": sum(outcome < 0.5 for outcome in outcomes),
        "tied": sum(outcome == 0.5 for outcome in outcomes),
        "win_rate": mean,
        "interval": (max(0.0, mean - 0.2), min(1.0, mean + 0.18)),
        "method": "t",
        "p": 0.2134,
        "margin": Interval(value=0.41, low=-0.1, high=0.92),
        "flips": 1,
        "both_orders": len(pairs),
        "length_controlled": Interval(value=mean, low=max(0.0, mean - 0.25), high=min(1.0, mean + 0.2)),
        "forfeits": (0, sum(match.forfeit == "second" for match in pairs)),
        "unjudged": sum(match.outcome is None for match in pairs),
        "bounds": (mean, mean),
        "anchors": Interval(value=0.55, low=0.3, high=0.8),
        "detectable": 0.27,
        "enough_queries": 70,
        "floor": 0.35,
    }
    return SideResult(**plain | changes)


def a_comparison(queries: Sequence[ComparedQuery], evil: str = "", **changes: Any) -> Comparison:
    """Return what a comparison of so many sides says; `evil` is in every text of a stranger."""
    count = len(queries[0].rollouts) if queries else 2
    labels = "ABCDE"[:count]
    pairings = [(first, second) for first in range(count) for second in range(first + 1, count)]
    results = tuple(a_result(queries, pairing) for pairing in pairings)
    share = Interval(value=0.05, low=0.0, high=0.12)
    figures = SideFigures(
        label="A",
        rollouts=40,
        failed=share,
        usd=Interval(value=0.0123, low=0.01, high=0.015),
        tokens=Interval(value=12345, low=10000, high=14000),
        duration_s=Interval(value=12.3, low=10.1, high=14.2),
        steps=Interval(value=4.2, low=3.9, high=4.5),
        passed=Interval(value=0.7, low=0.5, high=0.9),
    )
    plain: dict[str, Any] = {
        "comparison": "20260722T090000-compare-1a2b3c",
        "path": "runs/20260722T090000-compare-1a2b3c",
        "offline": False,
        "sides": tuple(a_side(label, evil) for label in labels),
        "judge": f"gpt-5-mini{evil}",
        "rubric": f"writing@1 0f1e2d3c4b5a{evil}",
        "status": "complete",
        "sentence": _sentence(results[0]) if count == 2 else "",
        "results": results,
        "strengths": tuple(
            Strength(label=label, strength=Interval(value=0.1, low=-0.2, high=0.4))
            for label in (labels if count > 2 else "")
        ),
        "figures": tuple(figures.model_copy(update={"label": label}) for label in labels),
        "slices": (
            Slice(
                key=f"topic{evil}",
                value=f"sky{evil}",
                queries=9,
                win_rate=Interval(value=0.7, low=0.5, high=0.9),
                p=0.1,
            ),
            Slice(key="topic", value="sea", queries=4),
            Slice(key="uses tools", value="yes", queries=11, win_rate=Interval(value=0.41, low=0.22, high=0.6), p=1.0),
        ),
        "notes": (f"the judge and side B share a family: gpt{evil}",),
    }
    return Comparison(**plain | changes)


def make(
    count: int = 8, *, sides: int = 2, evil: str = "", seed: int = 0, failed: bool = False, **changes: Any
) -> MadeComparison:
    """Return a comparison of so many queries with two pairs each; with `failed`, B failed on the first query."""
    rng, writer = random.Random(seed), Writer(evil)
    margins = [tuple(round(rng.uniform(-3, 3), 1) for _ in range(2)) for _ in range(count)]
    queries = tuple(
        writer.query(number, pair, sides=sides, failed="max_turns" if failed and not number else None)
        for number, pair in enumerate(margins)
    )
    return MadeComparison(a_comparison(queries, evil, **changes), queries, writer.verdicts, writer.blobs)


def stored(runs_dir: Path, made: MadeComparison, **changes: Any) -> ComparisonReader:
    """Write a comparison's folder, and return a reader of it, which the caller closes."""
    said = made.comparison
    plain: dict[str, Any] = {
        "schema_version": 1,
        "id": said.comparison,
        "created_at": AT,
        "sides": said.sides,
        "settings": {},
        "judge": {"identity": "gpt-5-mini"},
        "rubric": said.rubric,
        "task_from": "agent",
        "pairs": 2,
        "offline": said.offline,
        "versions": {"arena-harness": "0.2.0"},
    }
    with ComparisonStore.create(runs_dir, ComparisonInfo(**plain | changes)) as store:
        for text in made.blobs.values():
            store.put_blob(text)
        for verdict in made.verdicts.values():
            store.add_verdict(verdict)
        floors = (None,) * len(said.sides)
        head = ComparisonHead(
            id="20260722T090000-first", created_at=AT, sides=said.sides, notes=said.notes, floors=floors
        )
        file = store.open_comparison(head)
        for query in made.queries:
            file.add(query)
        file.finish()
        file.close()
    return ComparisonReader(store.folder)


def _sentence(result: SideResult) -> str:
    low, high = result.interval
    return (
        f"B beats A on {result.better} of {result.queries} queries, loses on {result.worse}, ties on {result.tied}: "
        f"preferred in {100 * result.win_rate:.0f} % [{100 * low:.0f}, {100 * high:.0f}], judged by `gpt-5-mini` in "
        "both orders. No clear winner; about 70 queries would decide."
    )
