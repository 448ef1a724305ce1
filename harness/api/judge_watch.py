"""A second judge over a training: does the policy gain under both, or only under the judge that it is trained on?"""

import logging
from typing import Any, Unpack

from harness.api.one_group import rank
from harness.api.policy_records import PolicyGroup
from harness.core.errors import JudgeFailed, Refused, UsageError, on_a_line
from harness.core.settings_types import CommonSettings
from harness.judging.judges import Judge
from harness.ranking.judge_stats.agreement import Share
from harness.ranking.judge_stats.watch import WatchedGroup, WatchFigures, mean_marks, watch_figures


class JudgeWatch:
    """Has every k-th group of a training judged again by a second judge, or by another rubric."""

    def __init__(self, judge: str | Judge, *, every: int = 8, **settings: Unpack[CommonSettings]) -> None:
        """Watch with `judge`, as `harness.rank` takes it, and with its `settings` (`rubric=...`). Raises UsageError."""
        if type(every) is not int or every < 1:
            raise UsageError(f"every={every!r}: give a whole number, at least 1")
        self._judge, self._every, self._settings = judge, every, settings
        self._seen, self._watched = 0, list[WatchedGroup]()
        self.figures: WatchFigures = watch_figures(())
        """What the groups so far show; `figures.alarm` is True from the first alarm on."""

    async def look(self, group: PolicyGroup) -> dict[str, float] | None:
        """Judge a group again if it is its turn, and return what a trainer logs; None where nothing was judged.

        A group that the second judge gives no verdict on is passed over, and the log `arena-harness` says so.
        """
        self._seen += 1
        if (self._seen - 1) % self._every:
            return None
        settings: Any = {"topology": "cyclic", "estimator": "margins", **self._settings}
        log, why = logging.getLogger("arena-harness"), "its endpoint failed"
        try:
            second = mean_marks(await rank(group.recorded, self._judge, **settings))
        except (JudgeFailed, Refused) as exc:
            second, why = dict[int, float](), on_a_line(exc)
        first, answers = mean_marks(group.ranking), {r.index: r.trajectory.answer for r in group.recorded.rollouts}
        both = sorted(first.keys() & second.keys())
        if len(both) < 2:
            log.warning("the second judge gave no verdict: %s", why)
            return None
        in_both_orders = [match for match in group.ranking.matches if len(set(match.shown_first)) == 2]
        watched = WatchedGroup(
            group.version,
            tuple(first[index] for index in both),
            tuple(second[index] for index in both),
            tuple(len(answers[index]) for index in both),
            Share(sum(match.flipped for match in in_both_orders), len(in_both_orders)),
        )
        self._watched.append(watched)
        was = self.figures.alarm
        self.figures = watch_figures(self._watched, alarmed=was)
        if self.figures.alarm and not was:
            log.warning(
                "alarm at version %d: the policy gains under its judge and not under the second one (reward hacking); "
                "read groups of now, and mend the rubric or the judge",
                group.version,
            )
        return self.figures.as_dict()
