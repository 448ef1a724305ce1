"""Reports: an archive's records as tables, figures and one HTML page. Reads only the archive; judges nothing."""

from harness.report.json import is_offline, run_json
from harness.report.judge_quality import Trust, first_wins_says, quality_json, share_json, share_words, trusts
from harness.report.matches import match_lines, matches_table
from harness.report.page import write_page
from harness.report.tables import overview, path_lines, run_cells, runs_table
from harness.report.text import beginning, dollars, signed, some
from harness.report.totals import Survey, group_of, survey

__all__ = [
    "Survey",
    "Trust",
    "beginning",
    "dollars",
    "first_wins_says",
    "group_of",
    "is_offline",
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
    "some",
    "survey",
    "trusts",
    "write_page",
]
