"""What `tokens="auto"` costs in CPU against `off`, over HTTP, archived on disk.

    python benchmarks/tokens.py [PAIRS]

What is compared is the CPU of the rollouts' own process, with auto and with off, against the same server in another
process. The server tells tokens only if it is asked, so auto also pays for receiving and reading them. Both sides run
the agent of overhead.py. A token has four characters, as English text has with common tokenizers, so that the last
prompt has about 600 tokens and the answer 150. They take turns (off, auto, auto, off), and the ratio is taken pair by
pair. Another pair goes to a server that tells no tokens, and a third one to a server with a token for each character,
which tells four times as much.
"""

import statistics
import sys
from pathlib import Path
from typing import Any, Literal

from looking_agent import AGENT
from overhead import CONCURRENCY, ROLLOUTS, cpu, interleaved, new_run, print_ratio, script

from harness.api.one_group import rollout
from harness.archive.store import RunStore
from harness.core.progress import now

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.fake_endpoint import FakeEndpoint
from tests.token_server import TokenServer

PosteriorSummary = Literal["vllm", "ignoring"]


def serve(pipe: Any, kind: PosteriorSummary, token_length: int) -> None:
    """Run the server until the other side hangs up."""
    with FakeEndpoint(agent=TokenServer(script, kind, token_length=token_length)).serving() as endpoint:
        pipe.send(endpoint.base_url)
        pipe.recv()


async def captured(base_url: str, folder: Path, tokens: Literal["off", "auto"]) -> None:
    """Roll out into a run on disk."""
    with RunStore.create(folder, new_run()) as store:
        options: Any = {"n": ROLLOUTS, "store": store, "base_url": base_url, "concurrency": CONCURRENCY}
        await rollout(AGENT, "Go.", tokens=tokens, **options)


def pair(base_url: str, folder: Path) -> tuple[float, float]:
    """Return the CPU seconds of both sides, auto and off, each run twice, A B B A: the pace drifts."""
    off = cpu(captured, base_url, folder, "off")
    auto = cpu(captured, base_url, folder, "auto") + cpu(captured, base_url, folder, "auto")
    return auto, off + cpu(captured, base_url, folder, "off")


def measure(kind: PosteriorSummary, token_length: int, pairs: int) -> None:
    """Print the ratio for a server of some kind."""
    sides = interleaved(serve, (kind, token_length), pair, pairs)
    each = [1000 * statistics.median(side) / (2 * ROLLOUTS) for side in zip(*sides, strict=True)]
    print(
        f"server {kind}, {token_length} characters a token: CPU a rollout: auto {each[0]:.1f} ms, off {each[1]:.1f} ms"
    )
    print_ratio(sides, indent="  ")


def main() -> None:
    """Print the ratios."""
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 8
    print(f"{pairs} interleaved pairs of twice {ROLLOUTS} rollouts of four calls, started {now():%Y-%m-%d}")
    servers: tuple[tuple[PosteriorSummary, int], ...] = (("vllm", 4), ("ignoring", 4), ("vllm", 1))
    for kind, token_length in servers:
        measure(kind, token_length, pairs)


if __name__ == "__main__":
    main()
