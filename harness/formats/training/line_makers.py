"""Which format is made by what: the one list of formats that are lines of JSON of ranked groups."""

from collections.abc import Mapping

from harness.formats.training.art import art_records
from harness.formats.training.records import (
    LinesOf,
    dpo_records,
    group_records,
    openai_preference_records,
    sft_records,
)
from harness.formats.training.rules import ExportFormat

LINES_OF: Mapping[ExportFormat, LinesOf] = {
    "groups": group_records,
    "sft": sft_records,
    "dpo": dpo_records,
    "openai-preference": openai_preference_records,
    "art": art_records,
}
