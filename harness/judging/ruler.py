"""RULER: a listwise judge that scores several trajectories in one call, each from 0 to 1 (DESIGN §4)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from harness.core.clock import Clock
from harness.core.records import Failure, Usage, digest
from harness.core.verdicts import Scored, Unscored
from harness.judging.ask_with_repair import SAMPLING, Pricing, ask_and_read
from harness.judging.judge import Ask, Reply
from harness.judging.list_prompt import ListRubric, ListTask, build_list, list_fingerprint
from harness.judging.list_reply import read_scores
from harness.transcripts import Transcript


class ListJudge(Protocol):
    """Scores transcripts, all different, in the order given. A judge that fails returns Unscored with the cause."""

    @property
    def identity(self) -> str:
        """Who judges, as it stands in every verdict and key."""
        ...

    @property
    def rubric_label(self) -> str:
        """What it judges by, as it stands in every verdict."""
        ...

    def key(self, about: ListTask, transcripts: Sequence[Transcript]) -> str:
        """Return the verdict's key: equal keys mean that the judge would be asked the very same thing."""
        ...

    async def __call__(self, about: ListTask, transcripts: Sequence[Transcript]) -> Scored | Unscored:
        """Judge, and record the cost."""
        ...


class RulerJudge:
    """Scores lists of transcripts by a text rubric through `ask`; one alone on an absolute scale."""

    def __init__(
        self,
        ask: Ask,
        rubric: ListRubric,
        *,
        identity: str,
        pricing: Pricing,
        keep: Callable[[str], str],
        clock: Clock,
        settle: Callable[[], None] | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        """Set up. `keep` stores a raw reply and names it, `settle` waits until it is on disk (before a repair turn).

        `extra` are request parameters that `ask` adds.
        """
        self._settle = settle
        self._ask, self._rubric, self._pricing, self._keep, self._clock = ask, rubric, pricing, keep, clock
        self._fixed = [list_fingerprint(rubric), identity, SAMPLING | dict(extra or {})]
        self.identity = identity
        self.rubric_label = rubric.label

    def key(self, about: ListTask, transcripts: Sequence[Transcript]) -> str:
        """Return the sha256 of all that the verdict depends on, the transcripts' hashes in order among it."""
        task = [about.task.brief, about.task.reference, about.task.query, about.context, about.tools]
        return digest([*self._fixed, *map(digest, task), [t.hash for t in transcripts], 0])

    async def __call__(self, about: ListTask, transcripts: Sequence[Transcript]) -> Scored | Unscored:
        """Ask, read, ask once more if the reply cannot be used. Raises only what `ask` raises as Refused."""
        started, prompt = self._clock(), build_list(self._rubric, about, transcripts)
        replies: list[tuple[Reply, str]] = []
        outcome = await ask_and_read(
            self._ask, prompt, lambda text: read_scores(text, prompt.ids), self._keep, replies, settle=self._settle
        )
        usage = sum((r.usage for r, _ in replies), Usage())
        known = {
            "key": self.key(about, transcripts),
            "query": about.task.query_id,
            "transcripts": tuple(t.hash for t in transcripts),
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
            return Unscored.model_validate(known | {"failure": outcome})
        scores, explanations = zip(*(outcome[id_] for id_ in prompt.ids), strict=True)
        told = {"scores": scores, "explanations": explanations, "repaired": len(replies) > 1}
        return Scored.model_validate(known | told)
