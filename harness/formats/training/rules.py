"""What a user chooses of an export. Light: the command line reads it for --help."""

import hashlib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from harness.core.errors import UsageError, quoted

_NAME = re.compile(r"[A-Za-z0-9_]{1,50}")
WHOLE = {"train": 1.0}
"""All queries in one file."""


def read_split(text: str) -> dict[str, float]:
    """Return shares by name from `train=0.9,test=0.1`. Raises UsageError."""
    shares: dict[str, float] = {}
    for part in text.split(","):
        name, _, number = (word.strip() for word in part.partition("="))
        try:
            share = float(number)
        except ValueError:
            share = math.nan
        if not _NAME.fullmatch(name) or name in shares or not 0 < share <= 1:
            raise UsageError(f"--split {quoted(text)}: expected names with shares, such as train=0.9,test=0.1")
        shares[name] = share
    if abs(sum(shares.values()) - 1) > 1e-6:
        raise UsageError(f"--split {quoted(text)}: the shares add up to {sum(shares.values()):g}, not to 1")
    return shares


def choose_split(query_id: str, shares: Mapping[str, float]) -> str:
    """Return the name of the part that a query belongs to."""
    hashed = hashlib.sha256(query_id.encode("utf-8", "surrogatepass")).digest()
    place, total = int.from_bytes(hashed[:8], "big") / 2**64, 0.0
    for name, share in shares.items():
        total += share
        if place < total:
            return name
    return list(shares)[-1]  # the shares add up to a little less than 1


ExportFormat = Literal["groups", "sft", "dpo", "openai-preference", "art", "atif", "parquet", "csv"]
PairChoice = Literal["best-worst", "best-all", "adjacent", "all", "siblings", "forks"]
PAIRS_OF_STEPS = ("siblings", "forks")
"""Pairs of steps after one prompt, not of rollouts: all, or those of which one was made by a fork."""
SftStyle = Literal["trl", "trl-turns", "openai"]
Included = Literal["anchor", "failed", "flagged", "cut", "varied", "edited"]
EXPORT_FORMATS: tuple[ExportFormat, ...] = get_args(ExportFormat)
PAIR_CHOICES: tuple[PairChoice, ...] = get_args(PairChoice)
SFT_STYLES: tuple[SftStyle, ...] = get_args(SftStyle)
USUAL_CONFIDENCE = 0.95
"""The least p(better above worse) of a pair, in runs that were judged in one order."""
SIBLING_CONFIDENCE = 0.8
"""The same of two steps after one prompt."""


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
    step_advantages: bool = False
    """Whether a group's sequences tell what each turn was worth."""
    weak: bool = True
    """Whether groups with a weak signal may go in."""
    included: frozenset[Included] = frozenset()
    """What may go in although it is left out by default."""
    mixed: bool = False
    """Whether a group of several models may go in."""
    style: SftStyle | None = None
    """None: `trl`, or `trl-turns` where a best rollout has a message that was not said in its sequence."""
    final_answer: bool = False
    """Pairs hold the final answers alone, with the tool exchange that both share in the prompt."""
