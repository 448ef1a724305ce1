"""What a user chooses of an export. Light: the command line reads it for --help."""

from dataclasses import dataclass
from typing import Literal, get_args

ExportFormat = Literal["groups", "sft", "dpo", "openai-preference", "art", "atif", "parquet", "csv"]
PairChoice = Literal["best-worst", "best-all", "adjacent", "all"]
SftStyle = Literal["trl", "trl-turns", "openai"]
Included = Literal["anchor", "failed", "flagged", "cut"]
EXPORT_FORMATS: tuple[ExportFormat, ...] = get_args(ExportFormat)
PAIR_CHOICES: tuple[PairChoice, ...] = get_args(PairChoice)
SFT_STYLES: tuple[SftStyle, ...] = get_args(SftStyle)
USUAL_CONFIDENCE = 0.95
"""The least p(better above worse) of a pair, in runs that were judged in one order."""


@dataclass(frozen=True, kw_only=True)
class ExportRules:
    """What may go into an export, and in which form."""

    format: ExportFormat
    pairs: PairChoice = "best-worst"
    per_query: int | None = None
    """The most pairs of a query."""
    confidence: float | None = None
    """The least p(better above worse) of a pair without both orders; None: 0.95, in runs judged in one order only."""
    least_margin: float = 0.0
    """The least difference of two rollouts in score points."""
    weak: bool = True
    """Whether groups with a weak signal may go in."""
    included: frozenset[Included] = frozenset()
    """What may go in although it is left out by default."""
    mixed: bool = False
    """Whether a group of several models may go in."""
    style: SftStyle = "trl"
    final_answer: bool = False
    """Pairs hold the final answers alone, with the tool exchange that both share in the prompt."""
