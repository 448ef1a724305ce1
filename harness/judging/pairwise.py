"""The pairwise judge: one question, at most one repair turn, a verdict or a failure."""

from collections.abc import Callable

from harness.core.clock import Clock
from harness.core.records import Failure, Usage
from harness.core.verdicts import Judged, Side, SideScores, Unjudged
from harness.judging.ask_with_repair import SAMPLING, Pricing, ask_and_read
from harness.judging.flags import Asked, flags_of
from harness.judging.judge import Ask, Reply, verdict_key
from harness.judging.prompt import Prompt, Task, build, prompt_fingerprint
from harness.judging.reply import Reading, read_reply, winner_of
from harness.judging.rubric import Rubric
from harness.transcripts import Transcript


class PairwiseJudge:
    """Scores two transcripts by a rubric through `ask`."""

    def __init__(
        self,
        ask: Ask,
        rubric: Rubric,
        *,
        identity: str,
        pricing: Pricing,
        keep: Callable[[str], str],
        clock: Clock,
        settle: Callable[[], None] | None = None,
    ) -> None:
        """Set up. `identity` is `--judge-label`, else `model@host`; `keep` stores a raw reply and names it.

        `settle` waits until what was kept is on disk. It is called before a repair turn; otherwise the verdict's own
        record, written before anything else can run, sees to that.
        """
        self._settle = settle
        self._ask, self._rubric, self._pricing, self._keep, self._clock = ask, rubric, pricing, keep, clock
        self._fingerprint = prompt_fingerprint(rubric)
        self.identity = identity
        self.rubric_label = rubric.label

    def key(self, task: Task, first: Transcript, second: Transcript) -> str:
        """Return the verdict's key: of what the judge is shown, so that equal answers are one where only they count."""
        first, second = self._rubric.shown(first), self._rubric.shown(second)
        return verdict_key(
            prompt=self._fingerprint,
            identity=self.identity,
            sampling=SAMPLING,
            task=task,
            first=first.hash,
            second=second.hash,
            repeat=task.repeat,
        )

    async def __call__(self, task: Task, first: Transcript, second: Transcript) -> Judged | Unjudged:
        """Ask, read, ask once more if the reply cannot be used. Raises only what `ask` raises as Refused.

        The marks are capped after they are read: the judge's claims are held against its own marks, the winner
        follows from those that count.
        """
        first, second = self._rubric.shown(first), self._rubric.shown(second)
        started = self._clock()
        replies: list[tuple[Reply, str]] = []
        outcome = await self._outcome(build(self._rubric, task, first, second), replies)
        usage = sum((r.usage for r, _ in replies), Usage())
        known = {
            "key": self.key(task, first, second),
            "query": task.query_id,
            "first": first.hash,
            "second": second.hash,
            "repeat": task.repeat,
            "cut": _cut(first, second),
            "rubric": self.rubric_label,
            "judge": self.identity,
            "form": replies[-1][0].form if replies else None,
            "raw_replies": tuple(kept for _, kept in replies),
            "usage": usage,
            "price_usd": self._pricing.of(usage) if replies else None,
            "started_at": started,
            "duration_s": (self._clock() - started).total_seconds(),
        }
        if isinstance(outcome, Failure):
            return Unjudged.model_validate(known | {"failure": outcome})
        a, b = self._flagged(task, first, outcome.a), self._flagged(task, second, outcome.b)
        read = {"a": a, "b": b, "winner": winner_of(a, b), "analysis": outcome.analysis, "claims": outcome.claims}
        return Judged.model_validate(known | read | {"repaired": len(replies) > 1})

    def _flagged(self, task: Task, shown: Transcript, scores: SideScores) -> SideScores:
        rubric = self._rubric
        flags = flags_of(
            Asked(task.query, task.brief or "", rubric.max_words),
            path=shown.path if rubric.block("path") else None,
            answer=shown.answer if rubric.block("answer") else None,
        )
        return rubric.capped(scores, flags)

    async def _outcome(self, prompt: Prompt, replies: list[tuple[Reply, str]]) -> Reading | Failure:
        return await ask_and_read(
            self._ask, prompt, lambda text: read_reply(text, self._rubric), self._keep, replies, settle=self._settle
        )


def _cut(first: Transcript, second: Transcript) -> tuple[Side, ...]:
    sides: tuple[tuple[Side, Transcript], ...] = (("A", first), ("B", second))
    return tuple(side for side, shown in sides if shown.answer_cut)
