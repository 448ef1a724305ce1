"""Rollouts of a policy that is trained: all sampled alike, each with the tokens that its server sampled."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Unpack

import anyio
from agents import Agent

from harness.api.outside import AnyAgent, door, handed_out, named_credentials, read_run_env
from harness.archive.store import MemoryStore
from harness.core.errors import UsageError, option
from harness.core.progress import Progress
from harness.core.records import AGENT_FAILURES, Group, Query, Rollout
from harness.core.settings_sources import load
from harness.core.settings_types import CommonSettings
from harness.formats.queries import make_queries
from harness.formats.turns import NoMessages, Turn, TurnSequence, join_turns, token_fields
from harness.pipeline.app_checks import check_app, loaded_agent
from harness.pipeline.engines import open_engine
from harness.pipeline.exporting.export import stored_turns
from harness.pipeline.resolve import make_redactor, resolve_agent
from harness.pipeline.stages import maker_elsewhere
from harness.pipeline.varying import refuse_asking, settle_vary


@dataclass(frozen=True)
class SampledRollout:
    """A rollout with its model calls as turns, none where they have no form as messages."""

    rollout: Rollout
    turns: tuple[Turn, ...]
    begins_with: str | None = None
    """The name of the agent that a rollout begins with, where it is known."""

    @cached_property
    def joined(self) -> Sequence[TurnSequence]:
        """Its sequences by tokens, in the order of their first turns."""
        return join_turns(self.turns, by_tokens=True)

    @cached_property
    def sequences(self) -> Sequence[Mapping[str, Any]]:
        """Of each sequence `token_ids`, `token_mask` and `logprobs`, as far as the server told them."""
        return [token_fields(sequence) for sequence in self.joined]

    @property
    def first(self) -> int:
        """Which sequence is the starting agent's: no guardrail's, which may ask a model before."""
        outer = [at for at, sequence in enumerate(self.joined) if sequence.turns[0].within is None]
        named = [at for at in outer if self.joined[at].turns[0].agent == self.begins_with]
        return (named or outer or [0])[0]

    @property
    def why_untrained(self) -> str | None:
        """Why nothing of it may be trained, None where all may."""
        rollout = self.rollout
        if rollout.failure and rollout.failure.kind not in AGENT_FAILURES:
            return f"it failed ({rollout.failure.message})"
        if rollout.capture == "partial":
            return f"not all of its calls are recorded ({'; '.join(rollout.capture_gaps)})"
        if not rollout.effective.uniform:
            return f"it was not sampled as asked ({'; '.join(rollout.effective.exceptions) or 'there is no call'})"
        if not self.turns or "logprobs" not in self.sequences[self.first]:
            return "the server told no token ids and logprobs of a call"
        if 1 not in self.sequences[self.first]["token_mask"]:
            return "the model said nothing, not even its end"
        return None


@door
async def sampled_rollouts(
    agent: AnyAgent,
    asked: Sequence[tuple[str | Query | Mapping[str, Any], int]],
    *,
    policy_version: Callable[[], int] | None = None,
    progress: Progress | None = None,
    **settings: Unpack[CommonSettings],
) -> list[tuple[Query, Sequence[SampledRollout]]]:
    """Run an agent on each query so many times, all at the samples' temperature, and return the rollouts with tokens.

    Each model call notes the `policy_version` that it was made at. A query has fewer rollouts where its endpoint was
    given up. Raises UsageError; Refused where the endpoint turns the first call down, or tells no token ids.
    """
    chosen = load({"tokens": "require", **settings})
    run_env = replace(read_run_env(progress), policy_version=policy_version)
    if chosen.tokens != "require":
        raise UsageError(f"{option('tokens', chosen.tokens)}: a policy is trained on the tokens that it sampled")
    queries = list(make_queries([query for query, _ in asked]))
    loaded = loaded_agent(agent)
    spec = await resolve_agent(loaded, chosen, named_credentials(chosen, run_env))
    await check_app(spec, chosen, queries)
    store = MemoryStore(make_redactor(loaded, chosen, run_env.environ))
    chosen = settle_vary(chosen, spec, store.redact, run_env.environ)
    refuse_asking(chosen)
    api, groups = spec.endpoint and spec.endpoint.api, dict[str, Group]()
    async with open_engine(spec, chosen, store, run_env, maker_elsewhere(chosen)) as engine:

        async def roll_out(query: Query, times: int) -> None:
            groups[query.id] = handed_out(await engine.roll_out(query, indices=range(1, times + 1)))

        async with anyio.create_task_group() as tasks:
            for query, (_, times) in zip(queries, asked, strict=True):
                tasks.start_soon(roll_out, query, times)

    source: Any = loaded.source
    begins_with = str(source.name) if isinstance(source, Agent) else None

    def sampled(rollout: Rollout) -> SampledRollout:
        try:
            return SampledRollout(rollout, tuple(stored_turns(rollout, store.blobs.__getitem__, api)), begins_with)
        except NoMessages:
            return SampledRollout(rollout, ())

    return [(query, [sampled(rollout) for rollout in groups[query.id].rollouts]) for query in queries]
