"""Ranking, pure: topologies ask for matches, estimators turn matches into scores and ranks, ranks become rewards.

This room never calls a judge, awaits nothing, reads no file, and draws no chance but from an rng handed in.
Scores are exact (whole numbers of units, or `Fraction`), so that no rounding decides a match.
"""

from typing import TYPE_CHECKING

from harness.core.lazy_door import lazy_names

if TYPE_CHECKING:
    from harness.ranking.bracket import seeded_order
    from harness.ranking.ceiling import CEILING_FROM, ceiling_note, share_at_ends, without_ceiling_note
    from harness.ranking.comparisons import Comparisons, Fit, with_chances
    from harness.ranking.conclusions import Conclusion, Rule, comparisons_of, conclude, with_second_opinion
    from harness.ranking.curve.designs import CurveDesign, designs
    from harness.ranking.curve.points import KEEP, CurvePoint, VerdictCurve, frontier, plays_for, verdict_curve
    from harness.ranking.curve.verdict_table import VerdictTable, holds_every_pair, verdict_scores
    from harness.ranking.cyclic import Cyclic
    from harness.ranking.early_calls import sure_calls
    from harness.ranking.early_stop import EarlyStop, JurorCall
    from harness.ranking.equal_rewards import classes_of
    from harness.ranking.fit_versions import MARGINS, second_opinion
    from harness.ranking.given_pairs import GivenPairs
    from harness.ranking.judge_prior import Prior
    from harness.ranking.judge_stats.agreement import Share, kappa
    from harness.ranking.judge_stats.preferences import Preference, preferences
    from harness.ranking.judge_stats.side_by_side import (
        WITHIN,
        Choice,
        JudgedQueries,
        JudgedQuery,
        JudgingFigures,
        RankAgreement,
        Truth,
        choose,
        judging_figures,
        length_figure,
        rank_agreements,
        rights,
    )
    from harness.ranking.judge_stats.stacked_tally import TallySum
    from harness.ranking.judge_stats.tally import JudgeCall, Tally, judge_calls, tally
    from harness.ranking.juror_agreement import agreement, match_margins, mean_agreement
    from harness.ranking.kendall import tau_b
    from harness.ranking.many_arenas import ManyArenas, play_arenas
    from harness.ranking.many_tables import rank_many
    from harness.ranking.pair_probability import (
        pair_estimate,
        pair_of_fit,
        probabilities_above,
        probabilities_of_fit,
    )
    from harness.ranking.pooled import GROUPS_LEARNT_FROM, LearntJudge, fit_alone, fit_by, without_level
    from harness.ranking.profile import calls_of_judge, learn_profile, prior_of
    from harness.ranking.query_figures import QueryFigure, mean_over_queries, over_queries, quotient
    from harness.ranking.ranked_calls import (
        RankedClass,
        judge_behind,
        learnt_from_calls,
        learnt_from_queries,
        ranked_classes,
    )
    from harness.ranking.ranks import average_ranks
    from harness.ranking.registry import (
        NEED_ANCHOR,
        TOPOLOGIES,
        Entry,
        Sampler,
        calls_bounds,
        describe_design,
        make_topology,
    )
    from harness.ranking.reward_classes import stack_classes
    from harness.ranking.rewards import advantages, place
    from harness.ranking.score_table import RankedScores, rank_scores
    from harness.ranking.single_call import single_call_right, single_call_right_sd
    from harness.ranking.topology import (
        UNITS,
        Exact,
        Pairing,
        Played,
        Standing,
        Topology,
        exact,
        exact_mean,
        in_units,
        standings_in_units,
        standings_of,
    )
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "bracket": "seeded_order",
            "ceiling": "CEILING_FROM ceiling_note share_at_ends without_ceiling_note",
            "comparisons": "Comparisons Fit with_chances",
            "conclusions": "Conclusion Rule comparisons_of conclude with_second_opinion",
            "curve.designs": "CurveDesign designs",
            "curve.points": "KEEP CurvePoint VerdictCurve frontier plays_for verdict_curve",
            "curve.verdict_table": "VerdictTable holds_every_pair verdict_scores",
            "cyclic": "Cyclic",
            "early_calls": "sure_calls",
            "early_stop": "EarlyStop JurorCall",
            "fit_versions": "MARGINS second_opinion",
            "given_pairs": "GivenPairs",
            "judge_stats.agreement": "Share kappa",
            "judge_stats.preferences": "Preference preferences",
            "judge_stats.side_by_side": (
                "WITHIN Choice JudgedQueries JudgedQuery JudgingFigures RankAgreement Truth choose judging_figures "
                "length_figure rank_agreements rights"
            ),
            "judge_stats.stacked_tally": "TallySum",
            "judge_stats.tally": "JudgeCall Tally judge_calls tally",
            "juror_agreement": "agreement match_margins mean_agreement",
            "kendall": "tau_b",
            "judge_prior": "Prior",
            "many_arenas": "ManyArenas play_arenas",
            "many_tables": "rank_many",
            "profile": "calls_of_judge learn_profile prior_of",
            "pooled": "GROUPS_LEARNT_FROM LearntJudge fit_alone fit_by without_level",
            "query_figures": "QueryFigure mean_over_queries over_queries quotient",
            "pair_probability": "pair_estimate pair_of_fit probabilities_above probabilities_of_fit",
            "ranked_calls": "RankedClass judge_behind learnt_from_calls learnt_from_queries ranked_classes",
            "ranks": "average_ranks",
            "registry": "NEED_ANCHOR TOPOLOGIES Entry Sampler calls_bounds describe_design make_topology",
            "equal_rewards": "classes_of",
            "reward_classes": "stack_classes",
            "rewards": "advantages place",
            "score_table": "RankedScores rank_scores",
            "single_call": "single_call_right single_call_right_sd",
            "topology": "UNITS Exact Pairing Played Standing Topology exact exact_mean in_units standings_in_units "
            "standings_of",
        },
    )

__all__ = [
    "CEILING_FROM",
    "GROUPS_LEARNT_FROM",
    "KEEP",
    "MARGINS",
    "NEED_ANCHOR",
    "TOPOLOGIES",
    "UNITS",
    "WITHIN",
    "Choice",
    "Comparisons",
    "Conclusion",
    "CurveDesign",
    "CurvePoint",
    "Cyclic",
    "EarlyStop",
    "Entry",
    "Exact",
    "Fit",
    "GivenPairs",
    "JudgeCall",
    "JudgedQueries",
    "JudgedQuery",
    "JudgingFigures",
    "JurorCall",
    "LearntJudge",
    "ManyArenas",
    "Pairing",
    "Played",
    "Preference",
    "Prior",
    "QueryFigure",
    "RankAgreement",
    "RankedClass",
    "RankedScores",
    "Rule",
    "Sampler",
    "Share",
    "Standing",
    "Tally",
    "TallySum",
    "Topology",
    "Truth",
    "VerdictCurve",
    "VerdictTable",
    "advantages",
    "agreement",
    "average_ranks",
    "calls_bounds",
    "calls_of_judge",
    "ceiling_note",
    "choose",
    "classes_of",
    "comparisons_of",
    "conclude",
    "describe_design",
    "designs",
    "exact",
    "exact_mean",
    "fit_alone",
    "fit_by",
    "frontier",
    "holds_every_pair",
    "in_units",
    "judge_behind",
    "judge_calls",
    "judging_figures",
    "kappa",
    "learn_profile",
    "learnt_from_calls",
    "learnt_from_queries",
    "length_figure",
    "make_topology",
    "match_margins",
    "mean_agreement",
    "mean_over_queries",
    "over_queries",
    "pair_estimate",
    "pair_of_fit",
    "place",
    "play_arenas",
    "plays_for",
    "preferences",
    "prior_of",
    "probabilities_above",
    "probabilities_of_fit",
    "quotient",
    "rank_agreements",
    "rank_many",
    "rank_scores",
    "ranked_classes",
    "rights",
    "second_opinion",
    "seeded_order",
    "share_at_ends",
    "single_call_right",
    "single_call_right_sd",
    "stack_classes",
    "standings_in_units",
    "standings_of",
    "sure_calls",
    "tally",
    "tau_b",
    "verdict_curve",
    "verdict_scores",
    "with_chances",
    "with_second_opinion",
    "without_ceiling_note",
    "without_level",
]
