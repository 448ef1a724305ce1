"""Calibration: how often a run's judge is right on pairs with known answers, each in both orders; and its summary."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from importlib.resources import files
from itertools import combinations
from statistics import fmean
from typing import Any

from harness.core.cost import total_cost
from harness.core.errors import counted
from harness.core.rankings import Judged, Unjudged, Winner
from harness.doctor.checks import printable
from harness.doctor.recorded_pairs import AnyPair
from harness.formats.labelled_pairs import Label, LabelledPair, pairs_in_text
from harness.ranking.judge_stats.agreement import Share, kappa
from harness.ranking.judge_stats.tally import JudgeCall, Tally, tally
from harness.ranking.topology import exact
from harness.report.json import share_json
from harness.report.judge_quality import first_wins_meaning, information_words, share_words
from harness.report.terminal.judges import of_cell, usd_cell
from harness.report.text import beginning, dollars, signed


def bundled_pairs() -> list[LabelledPair]:
    """Return the pairs made for this project: each worse answer is worse by construction, in the way its class says."""
    return pairs_in_text((files("harness.doctor") / "pairs.jsonl").read_text("utf-8"), "pairs.jsonl")


_A_FIRST: Mapping[Winner, Label] = {"A": "a", "B": "b", "tie": "tie"}
_B_FIRST: Mapping[Winner, Label] = {"A": "b", "B": "a", "tie": "tie"}
"""The label that a verdict's winner stands for, where `a` or `b` was shown first."""


@dataclass(frozen=True)
class Trial:
    """A pair and the verdicts on it, one an order. Two equal texts have the same one in both places."""

    pair: AnyPair
    a_first: Judged | Unjudged
    b_first: Judged | Unjudged

    @property
    def is_identical(self) -> bool:
        """Whether the two texts are equal, so that there is one verdict."""
        a, b = self.pair.sides
        return a.hash == b.hash

    @property
    def label(self) -> Label:
        """What is right: the pair's label; two equal texts must tie, whatever their label says."""
        return "tie" if self.is_identical else self.pair.label

    @property
    def scores(self) -> tuple[Fraction, Fraction] | None:
        """The mean scores of `a` and of `b` over the orders; None where a verdict failed.

        Of two equal texts those of their one verdict: its mean with itself the other way round would always be level.
        """
        if isinstance(self.a_first, Unjudged) or isinstance(self.b_first, Unjudged):
            return None
        if self.is_identical:
            return exact(self.a_first.a.combined), exact(self.a_first.b.combined)
        a = exact(self.a_first.a.combined) + exact(self.b_first.b.combined)
        b = exact(self.a_first.b.combined) + exact(self.b_first.a.combined)
        return a / 2, b / 2

    @property
    def judged_label(self) -> Label | None:
        """The better side by the mean scores, of two equal texts by their one verdict; None where a verdict failed."""
        if self.scores is None:
            return None
        if self.is_identical:
            return self.labels_by_order[0]
        a, b = self.scores
        return "tie" if a == b else "a" if a > b else "b"

    @property
    def is_right(self) -> bool:
        """Whether both orders together say what is right."""
        return self.judged_label == self.label

    @property
    def labels_by_order(self) -> tuple[Label, ...]:
        """The label by each verdict that did not fail: `a` shown first, then `b`, unless the verdict is the same."""
        orders = [(self.a_first, _A_FIRST), (self.b_first, _B_FIRST)][: 1 if self.is_identical else 2]
        return tuple(labels[verdict.winner] for verdict, labels in orders if isinstance(verdict, Judged))

    @property
    def failed_verdicts(self) -> Mapping[str, Unjudged]:
        """The failed verdicts by key."""
        return {v.key: v for v in (self.a_first, self.b_first) if isinstance(v, Unjudged)}

    @property
    def tally(self) -> Tally:
        """The judge's position bias and the state of its replies, by this pair's verdicts."""
        a, b = self.pair.sides
        shown = [] if self.is_identical else [(self.a_first, a, b), (self.b_first, b, a)]
        calls = [
            JudgeCall(s.hash, t.hash, v.a.combined, v.b.combined, claimed=bool(v.claims), repaired=v.repaired)
            for v, s, t in shown
            if isinstance(v, Judged)
        ]
        return tally(calls, failed=len(self.failed_verdicts))


class _Results:
    """How often the judge is right on trials."""

    trials: list[Trial]

    @property
    def pairs_right(self) -> Share:
        """Of the pairs that were judged, those on which both orders together say what the label says."""
        judged = [t for t in self.trials if t.judged_label]
        return Share(sum(t.is_right for t in judged), len(judged))

    @property
    def verdicts_right(self) -> Share:
        """Verdicts that are right, each taken alone."""
        rights = [label == t.label for t in self.trials for label in t.labels_by_order]
        return Share(sum(rights), len(rights))


@dataclass
class ClassResult(_Results):
    """How the judge did on the pairs of one class."""

    name: str
    trials: list[Trial]

    @property
    def pairs(self) -> int:
        """How many pairs of the class were tried."""
        return len(self.trials)

    @property
    def ties(self) -> int:
        """Pairs that the judge calls level."""
        return sum(t.judged_label == "tie" for t in self.trials)

    @property
    def failed(self) -> int:
        """Pairs with a failed verdict."""
        return self.pairs - self.pairs_right.whole


@dataclass
class Calibration(_Results):
    """The trials that ended. It grows while the judge is asked, so that an interruption loses no trial."""

    judge: str
    rubric: str
    pairs: Sequence[AnyPair]
    secrets: tuple[str, ...] = ()
    """Texts that are never printed, even where an endpoint quotes them."""
    trials: list[Trial] = field(default_factory=list[Trial])

    @property
    def kappa(self) -> float | None:
        """Cohen's kappa between the judge and the labels; None where it is not defined."""
        return kappa((t.judged_label, t.label) for t in self.trials if t.judged_label)

    @property
    def identical_pairs(self) -> int:
        """Pairs of equal texts that were judged."""
        return sum(t.is_identical for t in self.trials if t.judged_label)

    @property
    def verdicts(self) -> Sequence[Judged | Unjudged]:
        """What was bought: every verdict once, the failed ones among them."""
        return [*{v.key: v for trial in self.trials for v in (trial.a_first, trial.b_first)}.values()]

    @property
    def usd(self) -> float | None:
        """What a verdict cost, the mean; None where a price is not known."""
        cost = total_cost(verdict.cost for verdict in self.verdicts).usd
        return None if cost is None or not self.verdicts else cost / len(self.verdicts)

    @property
    def seconds(self) -> float | None:
        """What a verdict took, the mean."""
        took = [verdict.duration_s for verdict in self.verdicts]
        return fmean(took) if took else None

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
        """Why verdicts failed, with the number of verdicts for each reason."""
        failed = {key: verdict for trial in self.trials for key, verdict in trial.failed_verdicts.items()}
        reasons = (f"{v.failure.kind}: {v.failure.message}" for v in failed.values())
        return Counter(printable(reason, self.secrets) for reason in reasons)

    @property
    def out_of_quota(self) -> bool:
        """Whether a verdict failed because nothing is left on the account."""
        return any(reason.startswith("quota:") for reason in self.failures)

    def classes(self) -> list[ClassResult]:
        """Return the result for each class, in the order of the pairs."""
        trials_by_class: dict[str, list[Trial]] = {}
        for trial in self.trials:
            trials_by_class.setdefault(trial.pair.group, []).append(trial)
        return [ClassResult(name, trials) for name, trials in trials_by_class.items()]


def count_calibration_calls(pairs: Sequence[AnyPair]) -> int:
    """Return how many judge calls pairs take, repair turns aside: two each, one for two equal texts."""
    shown = [(pair.query, *(side.hash for side in pair.sides)) for pair in pairs]
    return len({key for query, a, b in shown for key in ((query, a, b), (query, b, a))})


_LISTED = 10
"""Wrong pairs that are listed one by one."""


def calibration_lines(calibration: Calibration) -> Iterator[str]:
    """Yield how often the judge is right, how far it leans to a side, and where it fails."""
    if not calibration.pairs_right.whole:
        yield "no pair could be judged"
    else:
        yield f"right, both orders together: {share_words(calibration.pairs_right, 'pair')}"
        if identical := calibration.identical_pairs:
            pairs, are = ("pair", "is") if identical == 1 else ("pairs", "are")
            yield f"{identical} {pairs} of equal texts {are} judged once, and right where that verdict calls a tie"
        yield f"right, each verdict alone: {share_words(calibration.verdicts_right, 'verdict')}"
        if calibration.kappa is None:
            yield "Cohen's kappa is not defined: all labels, and all the judge's winners, are alike"
        else:
            yield f"Cohen's kappa with the labels: {signed(calibration.kappa)} (1: full agreement, 0: chance)"
    tally = calibration.tally
    if tally.flips.whole:
        yield f"flips: {share_words(tally.flips, 'pair')} name another winner in the other order"
        yield f"information: {information_words(tally.orders.information)}"
    if tally.first_wins.whole:
        yield f"first shown wins: {share_words(tally.first_wins, 'decided verdict')}; {first_wins_meaning(tally)}"
    if calibration.bias:
        points, error = calibration.bias
        yield f"standing first is worth {signed(points)} points (standard error {error:.2f})"
    if calibration.seconds is not None:
        cost = "of unknown cost" if calibration.usd is None else f"for {dollars(calibration.usd)}"
        yield f"a verdict: {calibration.seconds:.1f} s, {cost}"
    yield from _weaknesses(calibration)


def _weaknesses(calibration: Calibration) -> Iterator[str]:
    shares = [(row.name, row.pairs_right) for row in calibration.classes()]
    wrong = [f"{name} ({s.whole - s.part} of {s.whole})" for name, s in shares if s.part < s.whole]
    if wrong:
        yield f"wrong on: {', '.join(wrong)}"
        yield from _wrong_pairs(calibration)
    for reason, times in calibration.failures.most_common(3):
        yield f"{times} x failed verdict: {beginning(reason, 200)}"


def _wrong_pairs(calibration: Calibration) -> Iterator[str]:
    """Yield each pair that the judge got wrong, with what the judge said of it in each order."""
    trials = [trial for trial in calibration.trials if trial.judged_label and not trial.is_right]
    for trial in trials[:_LISTED]:
        a, b = trial.scores or (0, 0)
        pair = trial.pair
        label = "two equal texts" if trial.is_identical else f"labelled {pair.label}"
        yield (
            f'- {pair.group}, "{beginning(pair.query, 60)}": {label}, judged {trial.judged_label} '
            f"({float(a):g} v {float(b):g})"
        )
        orders = (("a", "b", trial.a_first), ("b", "a", trial.b_first))
        for first, second, verdict in orders[:1] if trial.is_identical else orders:
            sides = {"A": first, "B": second}  # the judge speaks of the side shown first as A
            analysis = verdict.analysis if isinstance(verdict, Judged) else dict[str, str]()
            named = ((*name.rpartition("_")[::2], text) for name, text in analysis.items())
            remarks = [f"{what} of {sides[side]}: {text}" if side in sides else text for what, side, text in named]
            if remarks:
                yield f"    {first} shown first: {beginning('; '.join(remarks), 300)}"
    if len(trials) > _LISTED:
        yield f"- and {len(trials) - _LISTED} more; --json has all"


def calibration_json(calibration: Calibration) -> dict[str, object]:
    """Return a calibration for machines, with every pair's label and the judge's."""
    tally, bias = calibration.tally, calibration.bias
    return {
        "judge": calibration.judge,
        "rubric": calibration.rubric,
        "pairs": len(calibration.pairs),
        "judged": calibration.pairs_right.whole,
        "accuracy": share_json(calibration.pairs_right),
        "single_verdicts": share_json(calibration.verdicts_right),
        "kappa": calibration.kappa,
        "flips": share_json(tally.flips),
        "information": asdict(tally.orders.information),
        "first_wins": share_json(tally.first_wins),
        "usd": calibration.usd,
        "seconds": calibration.seconds,
        "first_side": {"points": bias[0], "standard_error": bias[1]} if bias else None,
        "classes": {
            row.name: {
                "pairs": row.pairs,
                "right": row.pairs_right.part,
                "failed": row.failed,
                "ties": row.ties,
                "single_verdicts": share_json(row.verdicts_right),
            }
            for row in calibration.classes()
        },
        "failures": dict(calibration.failures),
        "trials": [
            {
                "class": trial.pair.group,
                "query": trial.pair.query,
                "label": trial.pair.label,
                "identical": trial.is_identical,
                "said": trial.judged_label,
                "scores": [float(s) for s in trial.scores] if trial.scores else None,
                "by_order": list(trial.labels_by_order),
                "right": trial.is_right if trial.judged_label else None,
                "analyses": [v.analysis if isinstance(v, Judged) else None for v in (trial.a_first, trial.b_first)],
            }
            for trial in calibration.trials
        ],
    }


def figure_rows(calibrations: Sequence[Calibration]) -> Iterator[list[str]]:
    """Yield what the pairs of each class come to, then all of them, flips, price and time: a cell a judge."""
    by_name = [{row.name: row.pairs_right for row in each.classes()} for each in calibrations]
    for name in dict.fromkeys(name for each in by_name for name in each):
        yield [name, *(of_cell(each.get(name)) for each in by_name)]
    yield ["all pairs right", *(of_cell(each.pairs_right) for each in calibrations)]
    yield ["flips", *(of_cell(each.tally.flips) for each in calibrations)]
    yield ["failed verdicts", *(str(sum(each.failures.values())) for each in calibrations)]
    yield ["cost a verdict", *(usd_cell(each.usd) for each in calibrations)]
    took = [each.seconds for each in calibrations]
    yield ["seconds a verdict", *("" if seconds is None else f"{seconds:.1f}" for seconds in took)]


def agreement_lines(calibrations: Sequence[Calibration]) -> Iterator[str]:
    """Yield for each two judges how often they name the same side, and why verdicts failed."""
    for (i, first), (j, second) in combinations(enumerate(calibrations, 1), 2):
        said = _said(first, second)
        same = Share(sum(a == b for a, b in said), len(said))
        words = "no pair that both judged"
        if said:
            chance = kappa(said)
            words = f"{share_words(same, 'pair')} named alike"
            words += "" if chance is None else f", Cohen's kappa {signed(chance)}"
        yield f"{i} and {j}: {words}"
    for number, each in enumerate(calibrations, 1):
        for reason, times in each.failures.most_common(3):
            yield f"{number}: {counted(times, 'failed verdict')}: {beginning(reason, 200)}"


def judges_compared_json(calibrations: Sequence[Calibration]) -> dict[str, Any]:
    """Return each judge's calibration, and how far each two agree."""
    agreements = [
        {"judges": [i, j], "pairs": len(said), "same": sum(a == b for a, b in said), "kappa": kappa(said)}
        for (i, first), (j, second) in combinations(enumerate(calibrations), 2)
        for said in [_said(first, second)]
    ]
    return {"judges": [calibration_json(each) for each in calibrations], "agreements": agreements}


def _said(first: Calibration, second: Calibration) -> list[tuple[str, str]]:
    """Return what two judges say of the pairs that both judged."""
    theirs = {id(trial.pair): trial.judged_label for trial in second.trials}
    both = ((trial.judged_label, theirs.get(id(trial.pair))) for trial in first.trials)
    return [(a, b) for a, b in both if a and b]
