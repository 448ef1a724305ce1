"""An answer on a page whose claims are underlined, each with a link to the step that holds it."""

from dataclasses import dataclass

from harness.core.errors import counted
from harness.core.records import Trajectory


@dataclass(frozen=True)
class AnswerPiece:
    """A piece of an answer, and what became of the claim that it is, if it is one."""

    text: str
    title: str = ""
    """What became of the claim."""
    step: int | None = None
    unsupported: bool = False


@dataclass(frozen=True)
class CheckedAnswer:
    """An answer in pieces, and how many of its claims are unsupported, or why none was looked up."""

    pieces: tuple[AnswerPiece, ...]
    sentence: str


def checked_answer(trajectory: Trajectory, shown: str, reference: str | None) -> CheckedAnswer:
    """Look up the claims of an answer as far as a page shows it."""
    from harness.evidence.check import check_trajectory  # noqa: PLC0415 - only a rubric with `evidence: yes` needs it

    claims = check_trajectory(trajectory.model_copy(update={"answer": shown}), reference)
    if claims is None:
        missing = "Claims were not looked up: the record has no tool output of this agent, or not all."
        return CheckedAnswer((AnswerPiece(shown),), missing)
    pieces, end = list[AnswerPiece](), 0
    for claim in claims:
        place = f"step {claim.step}" if claim.step else "the query or the reference"
        how = {"supported": f"stands in {place}", "derivable": f"derives from {place}"}
        title = how.get(claim.state, "stands in no tool output")
        unsupported = claim.state == "unsupported"
        pieces += [AnswerPiece(shown[end : claim.start]), AnswerPiece(claim.text, title, claim.step, unsupported)]
        end = claim.start + len(claim.text)
    missing = sum(piece.unsupported for piece in pieces)
    verb = "stands" if missing == 1 else "stand"
    sentence = f"{missing} of {counted(len(claims), 'claim')} that could be looked up {verb} in no tool output."
    return CheckedAnswer((*pieces, AnswerPiece(shown[end:])), sentence if claims else "No claim could be looked up.")
