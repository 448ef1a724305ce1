"""The registry of the formats that are lines of JSON: what makes the lines of each, and what each line must be.

A new format is named in `rules.ExportFormat`, and gets an entry in both tables.
"""

from collections.abc import Mapping

from harness.formats.training import line_models
from harness.formats.training.art import ArtGroup, art_records
from harness.formats.training.atif_trajectory import AtifTrajectory
from harness.formats.training.line_models import Part
from harness.formats.training.records import LinesOf, group_records, preference_records, sft_records
from harness.formats.training.rules import ExportFormat, ExportRules, SftStyle

LINES_OF: Mapping[ExportFormat, LinesOf] = {
    "groups": group_records,
    "sft": sft_records,
    "dpo": preference_records,
    "openai-preference": preference_records,
    "art": art_records,
}
"""What makes the lines of a ranked group; `atif` is a line for each rollout, ranked or not."""
_MODELS: Mapping[ExportFormat, type[Part]] = {
    "groups": line_models.GroupLine,
    "dpo": line_models.TrlPreference,
    "openai-preference": line_models.OpenAIPreference,
    "art": ArtGroup,
    "atif": AtifTrajectory,
}
_SFT_MODELS: Mapping[SftStyle, type[Part]] = {
    "trl": line_models.TrlChat,
    "trl-turns": line_models.TrlCompletion,
    "openai": line_models.OpenAIExample,
}


def line_model(rules: ExportRules) -> type[Part] | None:
    """Return what the lines of an export must be; None for tables."""
    return _SFT_MODELS[rules.style] if rules.format == "sft" else _MODELS.get(rules.format)
