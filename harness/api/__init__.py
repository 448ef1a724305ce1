"""The Python API: what `import harness` gives, over the same pipeline as the commands.

This room parses no command line and prints nothing; what runs are made of is for harness.pipeline to know.
"""

from harness.api.best import best_of, for_best
from harness.api.best_answer import Best, best_from
from harness.api.groups import rank, rollout
from harness.api.messages import TrajectoryScore, ruler
from harness.api.preloading import preload
from harness.api.runs import rescore, resume

__all__ = [
    "Best",
    "TrajectoryScore",
    "best_from",
    "best_of",
    "for_best",
    "preload",
    "rank",
    "rescore",
    "resume",
    "rollout",
    "ruler",
]
