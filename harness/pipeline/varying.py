"""What `--vary` asks for, settled before anything is spent: the texts of its variants stand in the run's settings."""

from dataclasses import replace
from pathlib import Path

from harness.core.errors import UsageError, before_colon, on_a_line, option
from harness.core.recipes import parse_variants
from harness.core.redaction import Redactor
from harness.core.settings import Settings
from harness.core.user_files import read_text
from harness.pipeline.judge_inputs import whole_text
from harness.pipeline.resolve import AgentSpec
from harness.rollouts.variation import vary_of

_MOST = 1_000_000


def settle_vary(settings: Settings, agent: AgentSpec, redact: Redactor) -> Settings:
    """Return settings whose way to vary holds the texts of its variants. Raises UsageError for one that cannot be."""
    if settings.vary is None:
        return settings
    vary, named = vary_of(settings), before_colon("vary")
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
