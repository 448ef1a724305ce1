"""Whether a planted task is learnt by `harness.rollout_groups`: `python benchmarks/policy_loop.py [SEEDS [STEPS]]`.

The policy is four numbers: a softmax over the first sampled token, which the server maps to one of four tools. One of
the tools answers, the others do not know. The judge marks answers; rewards come from the tournament alone. Held-out
queries are rolled out before and after, without training. The policy is as small as can be: the loop is what is tested.
"""

import asyncio
import json
import math
import random
import sys
import tempfile
from itertools import count
from pathlib import Path
from typing import Any

from agents import Agent, StopAtTools, function_tool

import harness

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.fake_endpoint import FakeEndpoint, Raw, Seen, fair_judge

TOOLS, RIGHT = ("atlas", "ledger", "almanac", "oracle"), "almanac"
STEPS, GROUPS, ROLLOUTS, HELD_OUT, RATE = 30, 2, 4, 10, 0.6


class SoftmaxPolicy:
    """A server that samples the first token from a softmax, and maps it to a call of a tool."""

    def __init__(self, seed: int) -> None:
        """Begin level."""
        self.logits, self.version = [0.0] * len(TOOLS), 0
        self._rng, self._numbers = random.Random(seed), count(1)

    def chances(self) -> list[float]:
        """Return the probability of each token."""
        exponentials = [math.exp(logit) for logit in self.logits]
        return [each / sum(exponentials) for each in exponentials]

    def __call__(self, seen: Seen) -> Raw:
        """Reply as vLLM does: with the ids of the prompt and of the one token."""
        chances, number = self.chances(), next(self._numbers)
        (token,) = self._rng.choices(range(len(TOOLS)), chances)
        call = {"name": TOOLS[token], "arguments": json.dumps({"question": seen.user})}
        message = {"role": "assistant", "tool_calls": [{"id": f"call_{number}", "type": "function", "function": call}]}
        logprobs: dict[str, Any] = {
            "content": [{"token": TOOLS[token], "logprob": math.log(chances[token]), "top_logprobs": []}]
        }
        choice: dict[str, Any] = {
            "index": 0,
            "message": message,
            "finish_reason": "tool_calls",
            "logprobs": logprobs,
            "token_ids": [token],
        }
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        head = {"id": f"chatcmpl-{number}", "object": "chat.completion", "created": 0, "model": "softmax"}
        return Raw(
            head | {"choices": [choice | {"logprobs": logprobs}], "usage": usage, "prompt_token_ids": [len(TOOLS)]}
        )

    def step(self, groups: list[harness.PolicyGroup]) -> None:
        """Take a step of GRPO along the gradient of the tokens' log probabilities."""
        chances, rollouts = self.chances(), [rollout for group in groups for rollout in group.rollouts]
        push = [0.0] * len(TOOLS)
        for rollout in rollouts:
            (sequence,) = rollout.sequences
            for token, mask in zip(sequence.token_ids, sequence.mask, strict=True):
                for place in range(len(TOOLS)) if mask else ():
                    push[place] += rollout.advantage * ((place == token) - chances[place]) / len(rollouts)
        self.logits = [logit + RATE * len(TOOLS) * each for logit, each in zip(self.logits, push, strict=True)]
        self.version += 1


def agent() -> Agent[Any]:
    """Return an agent whose tool's output is the answer."""

    def tool(name: str) -> Any:
        async def look(question: str) -> str:
            return f"The answer to {question}" if name == RIGHT else "Nothing is known of that."

        return function_tool(look, name_override=name, description_override="Look it up.")

    names = StopAtTools(stop_at_tool_names=list(TOOLS))
    return Agent[Any](name="asker", tools=[tool(name) for name in TOOLS], tool_use_behavior=names)


async def held_out(seed: int, settings: dict[str, Any]) -> float:
    """Return the share of rollouts of held-out queries that answer."""
    answered = 0
    for number in range(HELD_OUT):
        group = await harness.rollout(agent(), f"Held out {seed}.{number}?", anchor_temperature=1.0, **settings)
        answered += sum(rollout.trajectory.answer.startswith("The answer") for rollout in group.rollouts)
    return answered / (HELD_OUT * ROLLOUTS)


async def learn(seed: int, steps: int, folder: Path) -> tuple[float, float, dict[str, float]]:
    """Train from a seed; return the held-out reward before and after, and the loop's figures."""
    policy = SoftmaxPolicy(seed)
    judge = fair_judge(lambda answer: 9 if answer.startswith("The answer") else 2)
    with FakeEndpoint(policy, judge).serving() as endpoint:
        settings: dict[str, Any] = {
            "model": "softmax",
            "base_url": endpoint.base_url,
            "n": ROLLOUTS,
            "temperature": 1.0,
        }
        before = await held_out(seed, settings)
        rules = harness.GroupRules(weak=True, max_staleness=0, groups_per_step=GROUPS, max_skipped=20)
        judging: dict[str, Any] = {"judge_model": "judge", "topology": "cyclic", "estimator": "margins"}
        groups = harness.rollout_groups(
            agent(),
            (f"Question {seed}.{number}?" for number in count()),
            policy_version=lambda: policy.version,
            rules=rules,
            runs_dir=folder,
            **judging,
            **settings,
        )
        async with groups:
            try:
                for _ in range(steps):
                    policy.step([await anext(groups) for _ in range(GROUPS)])
            except harness.NothingRankable:  # all rollouts answer: there is nothing left to learn
                pass
        return before, await held_out(seed, settings), groups.figures


async def main(seeds: int = 5, steps: int = STEPS) -> None:
    """Print a line a seed."""
    risen = 0
    for seed in range(seeds):
        with tempfile.TemporaryDirectory() as folder:
            before, after, figures = await learn(seed, steps, Path(folder))
        risen += after > before
        print(f"seed {seed}: held-out reward {before:.2f} -> {after:.2f}, {figures['rollouts/handed_out']:.0f} groups")
    print(f"risen in {risen} of {seeds} seeds over {steps} steps")


if __name__ == "__main__":
    asyncio.run(main(*map(int, sys.argv[1:])))
