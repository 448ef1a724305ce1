"""What a model server is: its address and key, the HTTP client, errors, streams, prices.

Agent calls and judge calls both go through here. This room must not know what is asked, or why.
"""

from harness.endpoints.address import (
    AGENT_KEY,
    AGENT_URL,
    OPENAI_HOST,
    Endpoint,
    agent_endpoint,
    host_of,
    judge_endpoint,
    jurors,
)
from harness.endpoints.client import openai_client
from harness.endpoints.costs import (
    Bounds,
    Ceiling,
    Kind,
    Priced,
    Tokens,
    agent_tokens,
    both,
    bounds,
    judge_tokens,
    price_usd,
)
from harness.endpoints.errors import failure_of, refused
from harness.endpoints.secrets import secrets_in
from harness.endpoints.streams import StreamedReply, completed

__all__ = [
    "AGENT_KEY",
    "AGENT_URL",
    "OPENAI_HOST",
    "Bounds",
    "Ceiling",
    "Endpoint",
    "Kind",
    "Priced",
    "StreamedReply",
    "Tokens",
    "agent_endpoint",
    "agent_tokens",
    "both",
    "bounds",
    "completed",
    "failure_of",
    "host_of",
    "judge_endpoint",
    "judge_tokens",
    "jurors",
    "openai_client",
    "price_usd",
    "refused",
    "secrets_in",
]
