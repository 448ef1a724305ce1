"""Comparison, pure: what the matches of two sides or more say, with intervals over queries.

This room calls no judge, reads no file, and draws no chance but from a seed handed in. Figures of two sides speak of
the second one. scipy and statsmodels (the extra `compare`) are imported when a figure is worked out.
"""

from typing import TYPE_CHECKING

from harness.core.lazy_door import lazy_names

if TYPE_CHECKING:
    from harness.comparison.conclusions import compare_queries
    from harness.comparison.forecast import independent_queries, pass_forecast
    from harness.comparison.gate import conclude_gate, reasons_to_doubt
    from harness.comparison.gate_words import forecast_sentences
    from harness.comparison.libraries import check_libraries
    from harness.comparison.look_plan import FEWEST_CLUSTERS, FEWEST_QUERIES, LookPlan
    from harness.comparison.noise import Reversals, reversals
    from harness.comparison.scores import compare_scores
    from harness.comparison.sentences import sentence
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "gate_words": "forecast_sentences",
            "noise": "Reversals reversals",
            "forecast": "independent_queries pass_forecast",
            "gate": "conclude_gate reasons_to_doubt",
            "look_plan": "FEWEST_CLUSTERS FEWEST_QUERIES LookPlan",
            "conclusions": "compare_queries",
            "libraries": "check_libraries",
            "sentences": "sentence",
            "scores": "compare_scores",
        },
    )

__all__ = [
    "FEWEST_CLUSTERS",
    "FEWEST_QUERIES",
    "LookPlan",
    "Reversals",
    "check_libraries",
    "compare_queries",
    "compare_scores",
    "conclude_gate",
    "forecast_sentences",
    "independent_queries",
    "pass_forecast",
    "reasons_to_doubt",
    "reversals",
    "sentence",
]
