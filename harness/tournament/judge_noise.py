"""What the fit behind a ranking tells of its judge, as the record of a ranked group has it."""

from typing import NamedTuple

from harness.ranking.conclusions import Conclusion


class JudgeNoise(NamedTuple):
    """The figures of `GroupRanking` that are the judge's; all None where no call was made."""

    first_side: float | None = None
    first_side_sd: float | None = None
    sigma: float | None = None
    reliability: float | None = None


def judge_noise(conclusion: Conclusion) -> JudgeNoise:
    """Return what a group's calls tell of the judge, to six places."""
    fit = conclusion.fit
    if fit is None or not fit.calls:
        return JudgeNoise()
    figures = (fit.first_side, fit.first_side_sd, fit.sigma or 0.0, fit.reliability)
    return JudgeNoise(*(round(figure, 6) for figure in figures))
