"""Formats: between the archive and the files that others write or read.

Here a file becomes records, and ranked rollouts become training data (training). This room judges nothing, ranks
nothing and asks no model.
"""

from typing import TYPE_CHECKING

from harness.core.lazy_door import lazy_names

if TYPE_CHECKING:
    from harness.formats.imported import ImportedRun
    from harness.formats.kept_turns import unpack_turns
    from harness.formats.labelled_pairs import CONTROL, Label, LabelledPair, pairs_in_text, read_pairs
    from harness.formats.messages import checked_messages, read_messages
    from harness.formats.packed_queries import PackedQueries
    from harness.formats.queries import Asked, queries_of, query_from, read_queries
    from harness.formats.sharded import in_shard
    from harness.formats.training.atif_trajectory import atif_lines
    from harness.formats.training.candidates import RankedGroup, TurnsOf, candidates, group_may_go_in
    from harness.formats.training.card import CardContent, ExportedFile, ExportedRun, card_text
    from harness.formats.training.line_faults import faults_by, line_faults
    from harness.formats.training.line_makers import LINES_OF
    from harness.formats.training.losses import Losses
    from harness.formats.training.openai_rules import FEWEST_LINES
    from harness.formats.training.parquet_rows import PARQUET_TABLES, parquet_rows
    from harness.formats.training.records import TrainingLine
    from harness.formats.training.rules import EXPORT_FORMATS, PAIR_CHOICES, SFT_STYLES, ExportRules, Included
    from harness.formats.training.split import WHOLE, read_split, split_of
    from harness.formats.training.table import heading, table_rows
    from harness.formats.training.token_fields import TokenCounts
    from harness.formats.training_lines.lines_behind import lines_behind
    from harness.formats.training_lines.origins import SOURCES, line_hash
    from harness.formats.trajectory_files import FORMATS, Format, read_trajectories
    from harness.formats.turns import Turn, turns_of
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "imported": "ImportedRun",
            "kept_turns": "unpack_turns",
            "labelled_pairs": "CONTROL Label LabelledPair pairs_in_text read_pairs",
            "messages": "checked_messages read_messages",
            "packed_queries": "PackedQueries",
            "queries": "Asked queries_of query_from read_queries",
            "sharded": "in_shard",
            "training.atif_trajectory": "atif_lines",
            "training.candidates": "RankedGroup TurnsOf candidates group_may_go_in",
            "training.card": "CardContent ExportedFile ExportedRun card_text",
            "training.line_faults": "faults_by line_faults",
            "training.line_makers": "LINES_OF",
            "training.losses": "Losses",
            "training.openai_rules": "FEWEST_LINES",
            "training.parquet_rows": "PARQUET_TABLES parquet_rows",
            "training.records": "TrainingLine",
            "training.rules": "EXPORT_FORMATS PAIR_CHOICES SFT_STYLES ExportRules Included",
            "training.split": "WHOLE read_split split_of",
            "training.table": "heading table_rows",
            "training.token_fields": "TokenCounts",
            "training_lines.lines_behind": "lines_behind",
            "training_lines.origins": "SOURCES line_hash",
            "trajectory_files": "FORMATS Format read_trajectories",
            "turns": "Turn turns_of",
        },
    )

__all__ = [
    "CONTROL",
    "EXPORT_FORMATS",
    "FEWEST_LINES",
    "FORMATS",
    "LINES_OF",
    "PAIR_CHOICES",
    "PARQUET_TABLES",
    "SFT_STYLES",
    "SOURCES",
    "WHOLE",
    "Asked",
    "CardContent",
    "ExportRules",
    "ExportedFile",
    "ExportedRun",
    "Format",
    "ImportedRun",
    "Included",
    "Label",
    "LabelledPair",
    "Losses",
    "PackedQueries",
    "RankedGroup",
    "TokenCounts",
    "TrainingLine",
    "Turn",
    "TurnsOf",
    "atif_lines",
    "candidates",
    "card_text",
    "checked_messages",
    "faults_by",
    "group_may_go_in",
    "heading",
    "in_shard",
    "line_faults",
    "line_hash",
    "lines_behind",
    "pairs_in_text",
    "parquet_rows",
    "queries_of",
    "query_from",
    "read_messages",
    "read_pairs",
    "read_queries",
    "read_split",
    "read_trajectories",
    "split_of",
    "table_rows",
    "turns_of",
    "unpack_turns",
]
