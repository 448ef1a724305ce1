"""Rollouts: find an agent, run it N times on a query, capture what it did.

A rollout that fails is a record like any other. This room must not know how rollouts are judged or ranked.
"""

from typing import TYPE_CHECKING

from harness.core.lazy_door import lazy_names

if TYPE_CHECKING:
    from harness.rollouts.agent_folders import agent_files
    from harness.rollouts.approvals import ChosenApprover, check_approvals
    from harness.rollouts.attempt import ModelSource, RunContext
    from harness.rollouts.capture import check_tracing
    from harness.rollouts.engine import UNWATCHED, Engine, GroupWatch, sdk_in_hand
    from harness.rollouts.environment import AgentEnv
    from harness.rollouts.examples import copy_of_example
    from harness.rollouts.first_call import FirstCall
    from harness.rollouts.graph import connect, reachable, servers_to_connect
    from harness.rollouts.hosted_tools import check_tools
    from harness.rollouts.loading import LoadedAgent, NoSuchAgent, from_object, is_plain_name, load_agent
    from harness.rollouts.loop_watch import LoopWatch
    from harness.rollouts.maker import BegunRollout, RolloutMaker, RolloutsHere, record_lost
    from harness.rollouts.models import RecordedProvider, has_own_model, provider_for, recorded
    from harness.rollouts.nested import LoopModels
    from harness.rollouts.raw import RawCall, parts, unpack
    from harness.rollouts.recorder import RecordedCall, Recorder
    from harness.rollouts.replay import RecordedRollout, Replayed, ReplayOptions, replay_rollout
    from harness.rollouts.reply_items import split_think
    from harness.rollouts.request_diff import Divergence
    from harness.rollouts.servers import RolloutsOnServers
    from harness.rollouts.token_blob import unpack_tokens
    from harness.rollouts.tool_threads import tools_in_threads
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "approvals": "ChosenApprover check_approvals",
            "attempt": "ModelSource RunContext",
            "capture": "check_tracing",
            "engine": "UNWATCHED Engine GroupWatch sdk_in_hand",
            "environment": "AgentEnv",
            "examples": "copy_of_example",
            "first_call": "FirstCall",
            "graph": "connect reachable servers_to_connect",
            "hosted_tools": "check_tools",
            "agent_folders": "agent_files",
            "loading": "LoadedAgent NoSuchAgent from_object is_plain_name load_agent",
            "loop_watch": "LoopWatch",
            "maker": "BegunRollout RolloutMaker RolloutsHere record_lost",
            "models": "RecordedProvider has_own_model provider_for recorded",
            "nested": "LoopModels",
            "raw": "RawCall parts unpack",
            "recorder": "RecordedCall Recorder",
            "replay": "RecordedRollout Replayed ReplayOptions replay_rollout",
            "reply_items": "split_think",
            "request_diff": "Divergence",
            "servers": "RolloutsOnServers",
            "token_blob": "unpack_tokens",
            "tool_threads": "tools_in_threads",
        },
    )

__all__ = [
    "UNWATCHED",
    "AgentEnv",
    "BegunRollout",
    "ChosenApprover",
    "Divergence",
    "Engine",
    "FirstCall",
    "GroupWatch",
    "LoadedAgent",
    "LoopModels",
    "LoopWatch",
    "ModelSource",
    "NoSuchAgent",
    "RawCall",
    "RecordedCall",
    "RecordedProvider",
    "RecordedRollout",
    "Recorder",
    "ReplayOptions",
    "Replayed",
    "RolloutMaker",
    "RolloutsHere",
    "RolloutsOnServers",
    "RunContext",
    "agent_files",
    "check_approvals",
    "check_tools",
    "check_tracing",
    "connect",
    "copy_of_example",
    "from_object",
    "has_own_model",
    "is_plain_name",
    "load_agent",
    "parts",
    "provider_for",
    "reachable",
    "record_lost",
    "recorded",
    "replay_rollout",
    "sdk_in_hand",
    "servers_to_connect",
    "split_think",
    "tools_in_threads",
    "unpack",
    "unpack_tokens",
]
