"""What `--vary` asks for, settled before anything is spent: the texts of its variants stand in the run's settings."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from harness.core.errors import UsageError, before_colon, on_a_line, option
from harness.core.recipes import BY_TEMPERATURE, parse_variants
from harness.core.records import Group
from harness.core.redaction import Redactor
from harness.core.settings import Settings
from harness.core.user_files import read_text
from harness.endpoints.refused_settings import other_ways
from harness.pipeline.judge_inputs import whole_text
from harness.pipeline.resolve import AgentSpec
from harness.rollouts.variation import vary_in

_MOST = 1_000_000
_GROUPS = 3
"""So many groups show whether a temperature is ignored, of as many samples each as tell a draw from chance."""
_SAMPLES = 3


class EqualAnswers:
    """Looks at the first groups of a run, and says where none of them has samples that differ."""

    def __init__(self, settings: Settings, agent: AgentSpec | None, note: Callable[[str], None]) -> None:
        """Call `note` at most once. Nothing is looked at where samples are not varied by temperature alone."""
        self._asked = settings.temperature if vary_in(settings) == BY_TEMPERATURE and settings.temperature else None
        self._left = _GROUPS if self._asked and agent and not agent.offline else 0
        self._note = note

    def look(self, group: Group) -> None:
        """Look at a group that has just been rolled out."""
        heard = [r for r in group.rollouts if r.role == "sample" and r.status == "ok" and r.effective.uniform]
        answers = [r.trajectory.answer for r in heard]
        if not self._left or len(answers) < _SAMPLES:
            return
        self._left = self._left - 1 if len(set(answers)) == 1 else 0
        if self._left == 0 and len(set(answers)) == 1:
            same = f"in each of the first {_GROUPS} groups all samples gave one answer"
            ignored = (
                f"unless the agent can give only one, the model ignores {option('temperature', f'{self._asked:g}')}"
            )
            self._note(f"{same}: {ignored}, {other_ways()}")


def settle_vary(settings: Settings, agent: AgentSpec, redact: Redactor) -> Settings:
    """Return settings whose way to vary holds the texts of its variants. Raises UsageError for one that cannot be."""
    if settings.vary is None:
        return settings
    vary, named = vary_in(settings), before_colon("vary")
    if agent.offline and (vary.efforts or vary.models):
        way = "effort" if vary.efforts else "models"
        raise UsageError(f"{named}: {way} changes nothing of the embedded model; vary instructions or temperature")
    if vary.paraphrases:
        what = f"{named}: instructions={vary.paraphrases}: the harness writes no paraphrases"
        raise UsageError(f"{what}; write variants into a FILE, and name it with instructions=FILE")
    if vary.file:
        name = f"{named}: instructions={on_a_line(vary.file)}"
        try:
            vary = vary.with_variants(parse_variants(read_text(Path(vary.file), name, most=_MOST)))
        except ValueError as exc:
            raise UsageError(f"{name}: {exc}") from None
    text = str(vary)
    if whole_text(text, redact) is None:
        raise UsageError(f"{named}: a key, or what {option('redact')} takes out, stands in it, and no run may keep it")
    return replace(settings, vary=text)
