"""Reports: an archive's records as tables, figures and one HTML page. Reads only the archive; judges nothing."""

from harness.report.json import is_offline, run_json
from harness.report.judge_quality import (
    JudgeQuality,
    first_wins_meaning,
    judge_qualities,
    quality_json,
    share_json,
    share_words,
)
from harness.report.matches import match_lines, matches_table
from harness.report.page import write_page
from harness.report.tables import overview, path_lines, run_cells, runs_table
from harness.report.text import beginning, counted, dollars, signed
from harness.report.totals import RankingSummary, group_of, summarize

__all__ = [
    "JudgeQuality",
    "RankingSummary",
    "beginning",
    "counted",
    "dollars",
    "first_wins_meaning",
    "group_of",
    "is_offline",
    "judge_qualities",
    "match_lines",
    "matches_table",
    "overview",
    "path_lines",
    "quality_json",
    "run_cells",
    "run_json",
    "runs_table",
    "share_json",
    "share_words",
    "signed",
    "summarize",
    "write_page",
]
