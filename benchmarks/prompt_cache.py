"""What share of a judge's input tokens comes from a provider's cache, by the order in which the calls are sent?

    python benchmarks/prompt_cache.py [GROUPS]

A server that counts prefixes, as providers do: the first 1,024 tokens of a prompt and then every 128 are in the cache
of a machine once a reply to such a prompt was given, until newer ones have driven them out. Calls with the same
`prompt_cache_key` go to the same of four machines; without a key they go to any. Every pair of 8 rollouts is judged in
both orders. Time is virtual, requests are real.
"""

import hashlib
import random
import re
import sys
import zlib
from collections import OrderedDict
from collections.abc import Iterator
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import Any

import anyio
from pydantic import SecretStr

from harness.archive.store import MemoryStore
from harness.core.progress import now
from harness.endpoints.address import Endpoint
from harness.endpoints.costs import Priced
from harness.endpoints.gate import Gate
from harness.judging.endpoint import EndpointAsk
from harness.judging.judge_model import JudgeModel
from harness.judging.judges import PairwiseJudge
from harness.judging.prompt import Task
from harness.judging.rubric import load_rubric
from harness.judging.slots import Beginning, Slots
from harness.transcripts.transcript import Transcript

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.fake_endpoint import Reaction, Refuse, Say, Seen, fair_judge
from tests.virtual_endpoint import VirtualEndpoint
from tests.virtual_time import run_virtually

ROLLOUTS, PATH_WORDS, ANSWER_WORDS = 8, 1500, 400
AT_ONCE, REPLY_S = 16, 2.0
MACHINES = 4
ROOMS_TOKENS = (50_000, 200_000)
FIRST_TOKENS, BLOCK_TOKENS, CHARACTERS_A_TOKEN = 1024, 128, 4


class Machine:
    """A cache of prefixes, of which the oldest go when there is no room."""

    def __init__(self, room_tokens: int) -> None:
        """Empty."""
        self._blocks = room_tokens // BLOCK_TOKENS
        self._kept: OrderedDict[int, None] = OrderedDict()

    def cached(self, prompt: str) -> int:
        """Return how many tokens of the prompt's beginning are there."""
        tokens = 0
        for length, prefix in _prefixes(prompt):
            if prefix not in self._kept:
                break
            self._kept.move_to_end(prefix)
            tokens = length
        return tokens

    def keep(self, prompt: str) -> None:
        """Take the prompt in."""
        for _, prefix in _prefixes(prompt):
            self._kept[prefix] = None
            self._kept.move_to_end(prefix)
        while len(self._kept) > self._blocks:
            self._kept.popitem(last=False)


def _prefixes(prompt: str) -> Iterator[tuple[int, int]]:
    for tokens in range(FIRST_TOKENS, len(prompt) // CHARACTERS_A_TOKEN + 1, BLOCK_TOKENS):
        yield tokens, zlib.crc32(prompt[: tokens * CHARACTERS_A_TOKEN].encode())


class Provider:
    """The server's script; `takes_key` False refuses `prompt_cache_key`, as many servers do."""

    def __init__(self, room_tokens: int, *, takes_key: bool, code_a_pair: bool) -> None:
        """Start with empty caches. `code_a_pair` reads prompts as if each pair had a fence's code of its own."""
        self._code_a_pair = code_a_pair
        self._machines = [Machine(room_tokens) for _ in range(MACHINES)]
        self._takes_key, self._judge, self._rng = takes_key, fair_judge(), random.Random(0)
        self.input = self.cached = 0

    async def __call__(self, seen: Seen) -> Reaction:
        """Reply like a judge, and tell how much of the prompt was cached."""
        key = seen.body.get("prompt_cache_key")
        if key and not self._takes_key:
            return Refuse(400, "Unrecognized request argument supplied: prompt_cache_key")
        machine = self._machines[zlib.crc32(key.encode()) % MACHINES] if key else self._rng.choice(self._machines)
        prompt = seen.system + seen.user
        if self._code_a_pair:
            *_, code = re.findall("lines that carry the code ([0-9a-f]{16})", seen.user)
            prompt = prompt.replace(code, hashlib.sha256(prompt.encode()).hexdigest()[:16])
        cached, tokens = machine.cached(prompt), len(prompt) // CHARACTERS_A_TOKEN
        await anyio.sleep(REPLY_S)
        machine.keep(prompt)
        self.input, self.cached = self.input + tokens, self.cached + cached
        reply = self._judge(seen)
        return Say(reply.text, usage=(tokens, 200), cached=cached) if isinstance(reply, Say) else reply


class FirstCome(Slots):
    """Slots in the order of arrival."""

    async def take(self, beginning: Beginning) -> None:
        """Forget how the prompt begins."""
        del beginning
        await super().take(("", ""))

    def leave(self, beginning: Beginning) -> None:
        """Forget the same."""
        del beginning
        super().leave(("", ""))


def texts(rng: random.Random, words: int) -> str:
    """Return so many words."""
    return " ".join(f"w{rng.randrange(5000)}" for _ in range(words))


async def share(groups: int, room_tokens: int, *, ordered: bool, takes_key: bool, code_a_pair: bool) -> float:
    """Judge all pairs of all groups, and return the share of input tokens that were cached."""
    rng, provider = random.Random(1), Provider(room_tokens, takes_key=takes_key, code_a_pair=code_a_pair)
    async with VirtualEndpoint(provider).serving() as server:
        there = Endpoint(base_url=server.base_url, key=SecretStr("sk-benchmark"), api="chat")
        ask: Any = EndpointAsk(there, "m", Gate.impatient(), retries=1, limit=AT_ONCE)
        if not ordered:
            ask._places = FirstCome(AT_ONCE)  # noqa: SLF001 - nobody but this benchmark wants another order
        pricing = Priced("m", None, free=True)
        model = JudgeModel(ask, identity="m@host", pricing=pricing, keep=MemoryStore().put_blob, clock=now)
        judge = PairwiseJudge(model, load_rubric("writing"))
        async with anyio.create_task_group() as tasks:
            for number in range(groups):
                task = Task(f"q{number}", texts(rng, 30), texts(rng, 200))
                rollouts = [Transcript(texts(rng, PATH_WORDS), texts(rng, ANSWER_WORDS)) for _ in range(ROLLOUTS)]
                pairs = list(permutations(rollouts, 2))
                rng.shuffle(pairs)
                for first, second in pairs:
                    tasks.start_soon(judge, task, first, second)
        await ask.aclose()
    return provider.cached / provider.input


def main() -> None:
    """Print the shares."""
    groups = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    print(f"{groups} groups of {ROLLOUTS}, all pairs in both orders, {AT_ONCE} calls at a time; shuffled before")
    for room in ROOMS_TOKENS:
        print(f"{room:,} tokens in the cache of a machine")
        for takes_key, ordered, code_a_pair in ((1, 1, 0), (1, 0, 0), (0, 1, 0), (0, 0, 0), (1, 1, 1)):
            rules = {"ordered": bool(ordered), "takes_key": bool(takes_key), "code_a_pair": bool(code_a_pair)}
            cached = run_virtually(partial(share, groups, room, **rules))
            words = [
                "with the key" if takes_key else "without the key",
                "calls that begin alike in a row" if ordered else "calls as they come",
                *(["a fence's code for each pair"] if code_a_pair else []),
            ]
            print(f"{100 * cached:6.1f} % cached: {', '.join(words)}")


if __name__ == "__main__":
    main()
