"""arena-harness: run an LLM agent many times, find out which runs were really better, keep the evidence.

    group = await harness.rollout(agent, "Why is the sky blue?", n=8)
    ranking = await harness.rank(group, judge="gpt-5.2")

Importing this imports nothing else: the Agents SDK takes over a second, and comes in when it is first needed.
"""

# Not from typing: `python -m harness` comes here first, and the working folder may hold a typing.py of a stranger's.
TYPE_CHECKING = False

__version__: str

if TYPE_CHECKING:
    from typing import Any

    from harness.api import Best, TrajectoryScore, best_of, preload, rank, rescore, resume, rollout, ruler
    from harness.archive import MemoryStore, RunReader, RunStore
    from harness.core.errors import HarnessError, JudgeFailed, UsageError
    from harness.core.rankings import GroupRanking
    from harness.core.records import Group, Query, Rollout
    from harness.ranking import rank_scores
    from harness.rollouts import AgentEnv

__all__ = [
    "AgentEnv",
    "Best",
    "Group",
    "GroupRanking",
    "HarnessError",
    "JudgeFailed",
    "MemoryStore",
    "Query",
    "Rollout",
    "RunReader",
    "RunStore",
    "TrajectoryScore",
    "UsageError",
    "best_of",
    "preload",
    "rank",
    "rank_scores",
    "rescore",
    "resume",
    "rollout",
    "ruler",
]

_HOMES = {
    "AgentEnv": "harness.rollouts",
    "Best": "harness.api",
    "Group": "harness.core.records",
    "GroupRanking": "harness.core.rankings",
    "HarnessError": "harness.core.errors",
    "JudgeFailed": "harness.core.errors",
    "MemoryStore": "harness.archive",
    "Query": "harness.core.records",
    "Rollout": "harness.core.records",
    "RunReader": "harness.archive",
    "RunStore": "harness.archive",
    "TrajectoryScore": "harness.api",
    "UsageError": "harness.core.errors",
    "best_of": "harness.api",
    "preload": "harness.api",
    "rank": "harness.api",
    "rank_scores": "harness.ranking",
    "rescore": "harness.api",
    "resume": "harness.api",
    "rollout": "harness.api",
    "ruler": "harness.api",
}


def __getattr__(name: str) -> "Any":
    """Import a public name when it is first asked for (PEP 562)."""
    if name not in _HOMES and name != "__version__":
        raise AttributeError(f"module 'harness' has no attribute {name!r}")
    import importlib  # noqa: PLC0415 - see above

    if name == "__version__":
        return importlib.import_module("importlib.metadata").version("arena-harness")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """Return the public names, for completion."""
    return __all__
