"""The records of ranking: matches, places, and the ranking of a group."""

from typing import Annotated, Literal

from pydantic import Field

from harness.core.records import Record, Usage, is_empty

Signal = Literal["ok", "weak", "none"]
SecondOpinion = Literal["margins", "pooled"]
"""The fit beside an estimator: behind `margin`, and behind the probabilities where the estimator has none."""
FIT_VERSION = 5
"""Which version of the fits gives rankings their probabilities: a ranking's head names it."""


class Match(Record):
    """Two rollouts compared: mean score a side over the verdicts used."""

    round: int
    """0 for the anchor's seeding matches, 1 and up for the rounds of the topology."""
    a: int
    b: int
    verdicts: tuple[str, ...]
    """Keys of the verdicts used, one an order and repeat; with a jury one an order, repeat and juror."""
    shown_first: tuple[int, ...]
    """For each of `verdicts`, the rollout that stood first."""
    score_a: float
    score_b: float
    winner: int | None
    """The higher score; None for a tie."""
    flipped: bool
    """The two orders name opposite winners."""
    inconsistent: bool
    """One order names a winner, the other a tie."""
    repeated: bool = False
    """The pair had met before in this tournament, and its scores were used again."""
    scores: tuple[tuple[float, float], ...] = ()
    """For each of `shown_first`, what that verdict gave the side shown first, and the other."""
    cut: bool = False
    """An answer was cut to fit --judge-budget: the judge did not see the whole of it."""
    jurors: tuple[Annotated[int, Field(ge=0, lt=1000)], ...] = Field(default=(), exclude_if=is_empty)
    """For each of `verdicts`, the seat of the juror who gave it, from 0; empty with a single judge."""


class Ranked(Record):
    """One rollout's place. `rank` 0 is best; ties share the average; None where it could not be ranked."""

    index: int
    score: float | None = None
    rank: float | None = None
    reward: float | None = None
    advantage: float | None = None
    uncertainty: float | None = None
    """Posterior standard deviation: of `score` where a fit ranks (margins, bt, pooled), else of `margin`."""
    margin: float | None = None
    """The second opinion's estimate (`GroupRanking.secondary_fit`): score points above the group's mean.

    With --judge-when tied, above the mean of its class of equal reward.
    """
    p_best: float | None = None
    """Posterior probability of being the best of those that ended well; None where no two scores differ."""
    p_above_mean: float | None = None
    """Posterior probability of being above their mean."""
    verified: float | None = None
    """The rollout's verifiable reward, if it has one."""
    explanation: str | None = None
    """Why a listwise judge scored it so."""


class Agreement(Record):
    """How far two jurors agree on the same items (matches; with a listwise judge, pairs of rollouts)."""

    jurors: tuple[str, str]
    items: int
    kappa: float | None
    """Cohen's kappa on the winners (first, second, tie); None where neither ever varied."""
    spearman: float | None
    """Rank correlation of the margins; None where one juror's are all equal, or with less than two items."""


class ImportedLine(Record):
    """A line of training data that was imported, and what its folder says is behind it."""

    sha256: str
    """Of the line, without its line break."""
    run: str
    ranking: str
    query: str
    rollouts: tuple[int, ...]
    records: str
    """The sha256 of the records of ranking and rollouts."""


class GroupRanking(Record):
    """The ranking of one query's rollouts, one line of a rankings file."""

    query: str
    topology: str
    estimator: str
    status: Literal["complete", "incomplete"]
    signal: Signal
    provisional: bool = False
    """Whether it is told anew once `pooled` has learnt the judge from all groups of the ranking.

    Ranked by `pooled` itself its places may change; beside another estimator only probabilities and signal may.
    """
    secondary_fit: SecondOpinion = "margins"
    """The fit behind `margin`, and, where the estimator has no fit of its own, behind probabilities and signal."""
    matches: tuple[Match, ...] = ()
    rollouts: tuple[Ranked, ...] = ()
    failed_verdicts: tuple[str, ...] = ()
    """Keys of verdicts that were asked for and failed: their matches stayed open."""
    judged: int = 0
    """Verdicts bought now."""
    reused: int = 0
    """Distinct verdicts used that were there before."""
    saved_calls: int = 0
    """Planned judge calls that were not made because they could not change who is best."""
    judge_usage: Usage = Usage.model_construct()
    """What the verdicts bought now took, failed ones and repair turns included."""
    judge_usd: float | None = 0.0
    notes: tuple[str, ...] = ()
    reward_from: Literal["rank", "score"] = "rank"
    first_side: float | None = None
    """What standing first is worth in this group, in score points, by the fit behind `signal`; with its sd."""
    first_side_sd: float | None = None
    sigma: float | None = None
    """Noise of one call's margin, in score points."""
    reliability: float | None = None
    """1 - mean posterior variance / variance of that fit's estimates, at least 0; `signal` is weak where it is low."""
    verdicts: tuple[str, ...] = ()
    """Keys of the listwise verdicts it rests on; a match names its own."""
    absent_verdicts: tuple[str, ...] = ()
    """Keys of jurors' verdicts that failed where the other jurors' stood in."""
    agreement: tuple[Agreement, ...] = ()
    """One for each two jurors."""
    origin: str | None = None
    """The format that it was imported from; None for a ranking made here."""
    judge: str | None = None
    """Who judged an imported group, as its file says."""
    pairs: tuple[tuple[int, int], ...] = ()
    """The better and the worse rollout of each imported preference, in the order of the file."""
    lines: tuple[ImportedLine, ...] = ()
    """The lines that it was imported from, of which it is known what is behind them."""
    basis: str = ""
    """Which records of the rollouts it rests on (`Group.basis`): with others on disk it is out of date."""
