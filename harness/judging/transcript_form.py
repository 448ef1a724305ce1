"""How a rubric wants its transcripts: within which budget, with files, and with what became of the answer's claims."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from pydantic import JsonValue

from harness.core.records import Trajectory
from harness.transcripts.tokens import ESTIMATE, TokenBudget, transcript_budget
from harness.transcripts.transcript import RENDERING, Transcript, check_rendering, cut_text, plain_text, transcribe

_CHECKED = "Checked by machine: "
_LOOKS_CHECKED = re.compile(r"^(?=[^\w\n]*Checked by machine)", re.IGNORECASE | re.MULTILINE)
_NOWHERE = " in no tool output of this agent, the request or the reference: "
_MOST_NAMED, _LONGEST = 12, 80
_QUOTES = '\u201c\u201d\u201e\u00ab\u00bb"'
EVIDENCE_NOTE = (
    f"The last paragraph of an answer, which begins with `{_CHECKED.strip()}`, is not the agent's: a program looked up "
    "the answer's numbers, dates, quotations, addresses and names. The program knows no other wording and no common "
    "knowledge: weigh what it says."
)
"""What a judge is told of it."""


@dataclass(frozen=True)
class TranscriptForm:
    """How trajectories become transcripts: the most that each may take (None: no limit)."""

    budget: TokenBudget | None = None
    files: bool = False
    """Whether what became of the files in its workspace is a part of the answer."""
    evidence: bool = False
    """Whether what became of the answer's claims stands behind it."""
    records: bool = False
    """Whether a judge may look into the trajectory itself."""

    @property
    def rendering(self) -> int:
        """The number of the way in which transcripts are written."""
        return RENDERING + self.files + 2 * self.evidence

    def __call__(self, trajectory: Trajectory, reference: str | None = None) -> Transcript:
        """Write a trajectory out; its claims may stand in the `reference` of its query, too."""
        shown = self._write(trajectory, reference)
        return replace(shown, record=trajectory) if self.records else shown

    def _write(self, trajectory: Trajectory, reference: str | None) -> Transcript:
        files = trajectory.files if self.files else ()
        if not self.evidence:
            return transcribe(trajectory, self.budget, files)
        words = f"\n\n{_CHECKED}{_claims_words(trajectory, reference)}"
        left = self.budget and replace(self.budget, tokens=max(0, self.budget.tokens - self.budget.count(words) - 1))
        answer = _LOOKS_CHECKED.sub("> ", plain_text(trajectory.answer))
        shown = transcribe(trajectory.model_copy(update={"answer": answer}), left, files)
        return replace(shown, answer=(shown.answer + words).strip())


def form_of_rendering(number: int, budget: TokenBudget | None = None, *, records: bool = False) -> TranscriptForm:
    """Return the form that a rendering's number stands for. Raises as `check_rendering`."""
    check_rendering(number)
    return TranscriptForm(budget, *(bool(number - RENDERING & bit) for bit in (1, 2)), records=records)


def recorded_form(settings: Mapping[str, JsonValue], judge: Mapping[str, JsonValue], rendering: int) -> TranscriptForm:
    """Return how transcripts were made for a ranking, by what its header states. Raises as `check_rendering`."""
    both = settings.get("judge_budget")  # a stranger's header may hold anything
    counter = str(judge.get("counter", ESTIMATE))
    budget = transcript_budget(both if isinstance(both, int) else 0, counter)
    return form_of_rendering(rendering, budget, records=bool(settings.get("judge_agent")))


def split_checked(answer: str) -> tuple[str, str]:
    """Return an answer without what is said of its claims, and the unsupported ones as they are named there."""
    before, _, checked = f"\n\n{answer}".rpartition(f"\n\n{_CHECKED}")
    return before.strip(), checked.partition(_NOWHERE)[2]


def _claims_words(trajectory: Trajectory, reference: str | None) -> str:
    from harness.evidence.check import check_trajectory  # noqa: PLC0415 - only a rubric with `evidence: yes` needs it

    claims = check_trajectory(trajectory, reference)
    if claims is None:
        return "nothing, since the record has no tool output of this agent, or not all."
    if not claims:
        return "nothing, since this answer has no claim that could be looked up."
    texts = dict.fromkeys(
        " ".join(claim.text.strip(_QUOTES).split()) for claim in claims if claim.state == "unsupported"
    )
    if not texts:
        return (
            f"all {len(claims)} claims that could be looked up stand in the agent's tool outputs, or derive from them."
        )
    named = ", ".join(f"\u201c{plain_text(cut_text(text, _LONGEST))}\u201d" for text in list(texts)[:_MOST_NAMED])
    more = f" and {len(texts) - _MOST_NAMED} more" if len(texts) > _MOST_NAMED else ""
    verb = "stands" if len(texts) == 1 else "stand"
    return f"{len(texts)} of {len(claims)} claims that could be looked up {verb}{_NOWHERE}{named}{more}"
