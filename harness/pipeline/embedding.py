"""How far the answers of a run differ in meaning, by a model of embeddings."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from harness.archive.reader import RunReader
from harness.core.cost import NOTHING
from harness.core.errors import HarnessError, Refused, UsageError
from harness.core.records import Bill, Usage
from harness.core.settings import Settings
from harness.endpoints.address import agent_servers
from harness.endpoints.client import openai_client
from harness.endpoints.costs import price_list
from harness.endpoints.credentials import Credentials
from harness.endpoints.retries import as_refusal, read_failure
from harness.pipeline.engines import endpoint_gate
from harness.pipeline.run_environment import RunEnvironment
from harness.ranking.judge_stats.side_by_side import mean_over_queries
from harness.report.summary.diversity import EmbeddedDistance

_MOST_CHARACTERS = 4_000
"""Of an answer: up to 256 go into one request, and providers limit its tokens."""


async def embedded_distance(
    reader: RunReader, model: str, settings: Settings, run_env: RunEnvironment
) -> EmbeddedDistance:
    """Ask the agent's server of `settings` for the embeddings of all answers of a run, a request a query.

    Raises UsageError without a server, Refused where it gives no embeddings.
    """
    named = f"embeddings by {model!r}"
    endpoint = next(iter(agent_servers(settings, Credentials.naming(run_env.environ, settings.base_url))), None)
    if endpoint is None:
        raise UsageError(f"{named}: there is no server to ask: set OPENAI_API_KEY, or OPENAI_BASE_URL")
    gate, client = endpoint_gate(endpoint, settings, run_env.gates), openai_client(endpoint)
    distances, tokens, cost, prices = list[float](), 0, NOTHING, price_list(settings)

    async def ask(texts: Sequence[str]) -> Any:
        asked: dict[str, Any] = {"model": model, "input": texts, "encoding_format": "float"}
        return await gate.send(lambda: client.embeddings.create(**asked), model=model)

    try:
        for query in reader.queries():
            answers = [r.trajectory.answer[:_MOST_CHARACTERS] for r in reader.group(query).rollouts if r.status == "ok"]
            texts = [answer for answer in answers if answer.strip()]
            if len(set(texts)) < 2:
                distances.extend([0.0] if len(texts) > 1 else [])
                continue
            reply = await ask(texts)
            distances.append(_mean_distance([each.embedding for each in reply.data], len(texts)))
            read = reply.usage.prompt_tokens if reply.usage else None
            tokens += read or 0
            bill = Bill(Usage(requests=1, input=read, output=None if read is None else 0))
            cost += prices.cost(bill, (model,), endpoint.base_url)
    except HarnessError:
        raise
    except Exception as exc:
        why = f"{named}: {endpoint.host} gave no embeddings: {read_failure(exc).message}"
        raise as_refusal(exc, model, endpoint.host) or Refused(why) from exc
    finally:
        await client.close()
    return EmbeddedDistance(model, mean_over_queries(distances), tokens, cost)


def _mean_distance(embeddings: Sequence[Sequence[float]], count: int) -> float:
    """Return the mean over all pairs of so many embeddings. Raises ValueError for what are none."""
    vectors = np.array(embeddings, dtype=np.float64)
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    if vectors.shape[:-1] != (count,) or not np.isfinite(lengths).all() or not lengths.all():
        raise ValueError(f"{len(embeddings)} lists of numbers came for {count} answers, or one has no direction")
    whole = float(np.square((vectors / lengths).sum(axis=0)).sum())
    return 1 - (whole - count) / (count * (count - 1))
