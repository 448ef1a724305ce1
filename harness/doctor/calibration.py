"""Calibration: the judge of a run on pairs with known answers, each in both orders, and how often it is right."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from harness.archive import MemoryStore
from harness.core.clock import now
from harness.core.errors import HarnessError
from harness.core.progress import Progress
from harness.core.settings import Settings
from harness.core.verdicts import Judged, Unjudged
from harness.doctor.checks import printable
from harness.doctor.labelled import Label, LabelledPair
from harness.judging import Buyer, Purse, Rubric, Task
from harness.pipeline import JudgeSpec, for_each, make_judge
from harness.ranking import Call, Share, Tally, exact, kappa, tally


@dataclass(frozen=True)
class Trial:
    """A pair and the verdicts on it: `a` shown first, then `b` shown first (the same one for two equal texts)."""

    pair: LabelledPair
    forth: Judged | Unjudged
    back: Judged | Unjudged

    @property
    def scores(self) -> tuple[Fraction, Fraction] | None:
        """The mean scores of `a` and of `b` over the orders; None where a verdict failed."""
        if isinstance(self.forth, Unjudged) or isinstance(self.back, Unjudged):
            return None
        a = exact(self.forth.a.combined) + exact(self.back.b.combined)
        b = exact(self.forth.b.combined) + exact(self.back.a.combined)
        return a / 2, b / 2

    @property
    def said(self) -> Label | None:
        """The better side by the mean scores; None where a verdict failed."""
        if self.scores is None:
            return None
        a, b = self.scores
        return "tie" if a == b else "a" if a > b else "b"

    @property
    def by_order(self) -> tuple[Label, ...]:
        """What each verdict that came out says, `a` first, then `b` first."""
        told: list[Label] = []
        for verdict, sides in ((self.forth, ("a", "b")), (self.back, ("b", "a"))):
            if isinstance(verdict, Judged):
                names: dict[str, Any] = {"A": sides[0], "B": sides[1], "tie": "tie"}
                told.append(names[verdict.winner])
        return tuple(told)

    @property
    def tally(self) -> Tally:
        """What the verdicts say of the judge's position bias and its replies."""
        first, second = self.pair.sides
        shown = ((self.forth, first, second), (self.back, second, first))
        same = first.hash == second.hash
        calls = [
            Call(one.hash, two.hash, v.a.combined, v.b.combined, claimed=bool(v.claims), repaired=v.repaired)
            for v, one, two in shown
            if isinstance(v, Judged) and not same
        ]
        return tally(calls, failed=len({v.key for v, _, _ in shown if isinstance(v, Unjudged)}))


@dataclass(frozen=True)
class ClassFigures:
    """What came of the pairs of one class."""

    name: str
    pairs: int
    right: Share
    """Of the pairs that were judged, those on which both orders together say what the label says."""
    single: Share
    """Verdicts that are right, each taken alone."""
    ties: int
    """Pairs that the judge calls level."""

    @property
    def failed(self) -> int:
        """Pairs with a failed verdict."""
        return self.pairs - self.right.whole


@dataclass
class Calibration:
    """The trials that ended; it grows while the judge is asked, so that an interruption loses none of it."""

    judge: str
    rubric: str
    asked: int
    secrets: tuple[str, ...] = ()
    """What is never printed, though an endpoint quotes it."""
    trials: list[Trial] = field(default_factory=list[Trial])

    @property
    def right(self) -> Share:
        """Pairs on which both orders together say what the label says, of those that were judged."""
        return _right(self.trials)

    @property
    def kappa(self) -> float | None:
        """Cohen's kappa of what the judge says and the labels; None where it is not defined."""
        return kappa((t.said, t.pair.label) for t in self.trials if t.said)

    @property
    def bias(self) -> tuple[float, float] | None:
        """What standing first is worth in score points, mean over pairs, and its standard error."""
        sums = self.tally.orders
        if sums.pairs < 2:
            return None
        mean = sums.shift / sums.pairs
        variance = max(0.0, sums.shift_squares / sums.pairs - mean * mean) / (sums.pairs - 1)
        return mean, variance**0.5

    @property
    def tally(self) -> Tally:
        """All trials' verdicts together."""
        return sum((t.tally for t in self.trials), Tally())

    @property
    def failures(self) -> Counter[str]:
        """Why verdicts failed."""
        failed = {v.key: v for t in self.trials for v in (t.forth, t.back) if isinstance(v, Unjudged)}
        return Counter(printable(f"{v.failure.kind}: {v.failure.message}", self.secrets) for v in failed.values())

    @property
    def out_of_quota(self) -> bool:
        """Whether a verdict failed because nothing is left on the account."""
        return any(reason.startswith("quota:") for reason in self.failures)

    @property
    def single(self) -> Share:
        """Verdicts that are right, each taken alone."""
        return _single(self.trials)

    def classes(self) -> list[ClassFigures]:
        """Return what came of each class, in the order of the pairs."""
        found: dict[str, list[Trial]] = {}
        for trial in self.trials:
            found.setdefault(trial.pair.group, []).append(trial)
        return [
            ClassFigures(name, len(trials), _right(trials), _single(trials), sum(t.said == "tie" for t in trials))
            for name, trials in found.items()
        ]


def _right(trials: Iterable[Trial]) -> Share:
    told = [t for t in trials if t.said]
    return Share(sum(t.said == t.pair.label for t in told), len(told))


def _single(trials: Iterable[Trial]) -> Share:
    """Count right verdicts; two equal texts have one verdict."""
    told = [
        (said, t.pair.label) for t in trials for said in (t.by_order[:1] if t.forth.key == t.back.key else t.by_order)
    ]
    return Share(sum(said == label for said, label in told), len(told))


def calls_for(pairs: Sequence[LabelledPair]) -> int:
    """Return how many judge calls pairs take, repair turns aside: two each, one for two equal texts."""
    keys = set[tuple[str, str, str]]()
    for pair in pairs:
        one, two = (side.hash for side in pair.sides)
        keys |= {(pair.query, one, two), (pair.query, two, one)}
    return len(keys)


async def calibrate(
    spec: JudgeSpec,
    rubric: Rubric,
    settings: Settings,
    environ: Mapping[str, str],
    pairs: Sequence[LabelledPair],
    found: Calibration,
    progress: Progress,
) -> None:
    """Ask the judge about every pair in both orders; what is told is added to `found` as it comes.

    The verdicts are kept in memory alone. Raises Refused where the first call is turned down.
    """
    store = MemoryStore()
    judge, close = make_judge(spec, rubric, settings, environ, store=store, clock=now)
    buyer = Buyer(judge, store, progress)
    found.judge = judge.identity
    ended: dict[int, Trial] = {}

    async def one(numbered: tuple[int, LabelledPair]) -> None:
        number, pair = numbered
        ended[number] = await _trial(buyer, pair)
        found.trials = [ended[k] for k in sorted(ended)]

    try:
        await for_each(enumerate(pairs), one, settings.judge_concurrency)
    except* HarnessError as group:
        error = _first(group)
        raise type(error)(printable(str(error), found.secrets)) from None
    finally:
        await close()


async def _trial(buyer: Buyer, pair: LabelledPair) -> Trial:
    a, b = pair.sides
    task, purse = Task("pair", pair.query), Purse()
    return Trial(pair, await buyer.get(task, a, b, purse), await buyer.get(task, b, a, purse))


def _first(group: BaseExceptionGroup[Any]) -> BaseException:
    one: Any = group.exceptions[0]
    return _first(one) if isinstance(one, BaseExceptionGroup) else one  # pyright: ignore[reportUnknownArgumentType]
