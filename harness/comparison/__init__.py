"""Comparison, pure: what the matches of two sides or more say, with intervals over queries.

This room calls no judge, reads no file, and draws no chance but from a seed handed in. Figures of two sides speak of
the second one. scipy and statsmodels (the extra `compare`) are imported when a figure is worked out.
"""

from typing import TYPE_CHECKING

from harness.core.lazy_door import lazy_names

if TYPE_CHECKING:
    from harness.comparison.clusters import spread_between_clusters
    from harness.comparison.conclusions import Conclusions, compare_queries
    from harness.comparison.libraries import check_libraries
    from harness.comparison.power import DEFAULT_SPREAD
    from harness.comparison.scores import compare_scores
    from harness.comparison.sentences import sentence
    from harness.comparison.side_results import shown, side_result
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "clusters": "spread_between_clusters",
            "conclusions": "Conclusions compare_queries",
            "libraries": "check_libraries",
            "power": "DEFAULT_SPREAD",
            "sentences": "sentence",
            "scores": "compare_scores",
            "side_results": "shown side_result",
        },
    )

__all__ = [
    "DEFAULT_SPREAD",
    "Conclusions",
    "check_libraries",
    "compare_queries",
    "compare_scores",
    "sentence",
    "shown",
    "side_result",
    "spread_between_clusters",
]
