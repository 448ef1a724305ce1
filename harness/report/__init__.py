"""Reports: an archive's records as figures, tables and one HTML page. Reads only the archive; judges nothing.

`summary` and `judge_quality` are the model: pure, and the same for all outputs. `terminal`, `html`, `json`, `markdown`
and `comparison_csv` are the outputs; none imports another. Only drawing a page loads jinja2.
"""

from typing import TYPE_CHECKING

from harness.core.lazy_door import lazy_names

if TYPE_CHECKING:
    from harness.report.compared_judges import compared_qualities
    from harness.report.comparison_csv import matches_csv
    from harness.report.curve_records import curve_csv, curve_json
    from harness.report.html.comparison.page import write_comparison_page
    from harness.report.html.curve.curve_svg import curve_svg
    from harness.report.html.pair.page import pair_page
    from harness.report.html.run.page import write_page
    from harness.report.json import agreement_json, figures_json, judges_json, quality_json, run_json, share_json
    from harness.report.judge_quality import agreement_words, first_wins_meaning, judge_qualities, share_words
    from harness.report.junit import junit_refusal, junit_xml
    from harness.report.jury_voices import jury_words, voice_words, voices_of_jurors
    from harness.report.learnt_judges import judge_profiles, profile_json, profile_words
    from harness.report.markdown import comparison_markdown, gate_markdown, refusal_markdown
    from harness.report.rollout_words import ranking_words
    from harness.report.summary.curve import CurveTruth, judging_curve, round_robin_of
    from harness.report.summary.judges import judges_side_by_side
    from harness.report.summary.label_agreement import label_agreement
    from harness.report.summary.match_verdicts import VerdictLookup
    from harness.report.summary.notes import open_reasons, provisional_words
    from harness.report.summary.pair_odds import PairOdds, pair_odds
    from harness.report.summary.pair_table import pair_table
    from harness.report.summary.ranking import RankingSummary, by_signal, group_of, is_offline, summarize
    from harness.report.summary.ranking_change import RankingChange, change_against_earlier
    from harness.report.summary.ranking_figures import ranking_figures
    from harness.report.summary.ranking_line import design_of, ranking_line
    from harness.report.summary.truths import AnswerLabel
    from harness.report.summary.why.explanation import explain_pair, find_pair, judged_ranking
    from harness.report.summary.why.pair_records import MeetingOffer, PairExplanation
    from harness.report.terminal.comparison import comparison_lines
    from harness.report.terminal.curve import curve_lines
    from harness.report.terminal.judge_quality import figure_lines, quality_lines
    from harness.report.terminal.judges import side_by_side_lines
    from harness.report.terminal.layout import on_one_line, visible_text
    from harness.report.terminal.matches import match_lines, matches_table
    from harness.report.terminal.overview import overview, parts_line
    from harness.report.terminal.pair_table import pair_table_lines
    from harness.report.terminal.queries import SORT_KEYS, QueryTable
    from harness.report.terminal.rankings import change_lines, rankings_table, rounds_lines
    from harness.report.terminal.rollout import path_lines
    from harness.report.terminal.runs import (
        ComparisonRow,
        RunLine,
        comparison_row,
        run_line,
        runs_table,
        unreadable_lines,
    )
    from harness.report.terminal.table import Column, TableRow, table_lines, table_or_list
    from harness.report.terminal.why import pair_lines
    from harness.report.text import beginning, dollars, probability, signed
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "junit": "junit_refusal junit_xml",
            "jury_voices": "jury_words voice_words voices_of_jurors",
            "html.comparison.page": "write_comparison_page",
            "html.run.page": "write_page",
            "html.pair.page": "pair_page",
            "json": "agreement_json figures_json judges_json quality_json run_json share_json",
            "learnt_judges": "judge_profiles profile_json profile_words",
            "judge_quality": "agreement_words first_wins_meaning judge_qualities share_words",
            "markdown": "comparison_markdown gate_markdown refusal_markdown",
            "comparison_csv": "matches_csv",
            "compared_judges": "compared_qualities",
            "curve_records": "curve_csv curve_json",
            "html.curve.curve_svg": "curve_svg",
            "terminal.curve": "curve_lines",
            "summary.truths": "AnswerLabel",
            "summary.curve": "CurveTruth judging_curve round_robin_of",
            "summary.judges": "judges_side_by_side",
            "summary.label_agreement": "label_agreement",
            "summary.match_verdicts": "VerdictLookup",
            "summary.notes": "open_reasons provisional_words",
            "summary.pair_table": "pair_table",
            "rollout_words": "ranking_words",
            "summary.ranking_figures": "ranking_figures",
            "summary.ranking_change": "RankingChange change_against_earlier",
            "summary.pair_odds": "PairOdds pair_odds",
            "summary.ranking_line": "design_of ranking_line",
            "summary.ranking": "RankingSummary by_signal group_of is_offline summarize",
            "summary.why.explanation": "explain_pair find_pair judged_ranking",
            "summary.why.pair_records": "MeetingOffer PairExplanation",
            "terminal.comparison": "comparison_lines",
            "terminal.judge_quality": "figure_lines quality_lines",
            "terminal.judges": "side_by_side_lines",
            "terminal.layout": "on_one_line visible_text",
            "terminal.matches": "match_lines matches_table",
            "terminal.overview": "overview parts_line",
            "terminal.pair_table": "pair_table_lines",
            "terminal.queries": "QueryTable SORT_KEYS",
            "terminal.rankings": "change_lines rankings_table rounds_lines",
            "terminal.rollout": "path_lines",
            "terminal.runs": "ComparisonRow RunLine comparison_row run_line runs_table unreadable_lines",
            "terminal.table": "Column TableRow table_lines table_or_list",
            "terminal.why": "pair_lines",
            "text": "beginning dollars probability signed",
        },
    )

__all__ = [
    "SORT_KEYS",
    "AnswerLabel",
    "Column",
    "ComparisonRow",
    "CurveTruth",
    "MeetingOffer",
    "PairExplanation",
    "PairOdds",
    "QueryTable",
    "RankingChange",
    "RankingSummary",
    "RunLine",
    "TableRow",
    "VerdictLookup",
    "agreement_json",
    "agreement_words",
    "beginning",
    "by_signal",
    "change_against_earlier",
    "change_lines",
    "compared_qualities",
    "comparison_lines",
    "comparison_markdown",
    "comparison_row",
    "curve_csv",
    "curve_json",
    "curve_lines",
    "curve_svg",
    "design_of",
    "dollars",
    "explain_pair",
    "figure_lines",
    "figures_json",
    "find_pair",
    "first_wins_meaning",
    "gate_markdown",
    "group_of",
    "is_offline",
    "judge_profiles",
    "judge_qualities",
    "judged_ranking",
    "judges_json",
    "judges_side_by_side",
    "judging_curve",
    "junit_refusal",
    "junit_xml",
    "jury_words",
    "label_agreement",
    "match_lines",
    "matches_csv",
    "matches_table",
    "on_one_line",
    "open_reasons",
    "overview",
    "pair_lines",
    "pair_odds",
    "pair_page",
    "pair_table",
    "pair_table_lines",
    "parts_line",
    "path_lines",
    "probability",
    "profile_json",
    "profile_words",
    "provisional_words",
    "quality_json",
    "quality_lines",
    "ranking_figures",
    "ranking_line",
    "ranking_words",
    "rankings_table",
    "refusal_markdown",
    "round_robin_of",
    "rounds_lines",
    "run_json",
    "run_line",
    "runs_table",
    "share_json",
    "share_words",
    "side_by_side_lines",
    "signed",
    "summarize",
    "table_lines",
    "table_or_list",
    "unreadable_lines",
    "visible_text",
    "voice_words",
    "voices_of_jurors",
    "write_comparison_page",
    "write_page",
]
