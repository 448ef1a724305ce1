"""What a model server is: its address and key, the HTTP client, errors, streams, prices.

Agent calls and judge calls both go through here. This room must not know what is asked, or why.
"""

from harness.endpoints.address import (
    AGENT_KEY,
    OPENAI_HOST,
    Certificates,
    Endpoint,
    agent_endpoint,
    agent_servers,
    host_of,
    judge_endpoint,
    jurors,
)
from harness.endpoints.batch_files import MOST_BATCH_BYTES, MOST_BATCH_REQUESTS, BatchFiles, BatchStatus
from harness.endpoints.breaker import EndpointDown
from harness.endpoints.call_settings import seed_of, with_seed
from harness.endpoints.client import openai_client
from harness.endpoints.costs import (
    Ceiling,
    CostBounds,
    Purchase,
    Tokens,
    agent_tokens,
    cost_bounds,
    judge_tokens,
    total_bounds,
)
from harness.endpoints.credentials import AGENT_URL, OPENAI_URL, Credentials
from harness.endpoints.errors import failure_of, is_quota, is_too_long, refusal_of
from harness.endpoints.gate import Gate, GateLesson, Gates, Patience
from harness.endpoints.prices import UNKNOWN_ADDRESS, Priced, PriceList, price_list
from harness.endpoints.refused_settings import (
    OPENS_AFTER_S,
    FirstAlone,
    RefusedSettings,
    SettingLesson,
    refused_setting,
)
from harness.endpoints.reply_body import NoReply, check_api, model_reply
from harness.endpoints.reply_form import first_choice, for_sdk, items_of, members_of, message_text
from harness.endpoints.reply_tokens import ReplyTokens
from harness.endpoints.retries import agent_retries, judge_retries
from harness.endpoints.secrets import secrets_in
from harness.endpoints.state import EndpointState
from harness.endpoints.streams import StreamedReply, completed
from harness.endpoints.time_limit import NO_LIMIT, FromAfar, Stoppable, TimeLimit
from harness.endpoints.token_requests import TokenRequests, asks_for_logprobs, asks_for_tokens
from harness.endpoints.usage import usage_of, usage_of_sdk, usage_of_span

__all__ = [
    "AGENT_KEY",
    "AGENT_URL",
    "MOST_BATCH_BYTES",
    "MOST_BATCH_REQUESTS",
    "NO_LIMIT",
    "OPENAI_HOST",
    "OPENAI_URL",
    "OPENS_AFTER_S",
    "UNKNOWN_ADDRESS",
    "BatchFiles",
    "BatchStatus",
    "Ceiling",
    "Certificates",
    "CostBounds",
    "Credentials",
    "Endpoint",
    "EndpointDown",
    "EndpointState",
    "FirstAlone",
    "FromAfar",
    "Gate",
    "GateLesson",
    "Gates",
    "NoReply",
    "Patience",
    "PriceList",
    "Priced",
    "Purchase",
    "RefusedSettings",
    "ReplyTokens",
    "SettingLesson",
    "Stoppable",
    "StreamedReply",
    "TimeLimit",
    "TokenRequests",
    "Tokens",
    "agent_endpoint",
    "agent_retries",
    "agent_servers",
    "agent_tokens",
    "asks_for_logprobs",
    "asks_for_tokens",
    "check_api",
    "completed",
    "cost_bounds",
    "failure_of",
    "first_choice",
    "for_sdk",
    "host_of",
    "is_quota",
    "is_too_long",
    "items_of",
    "judge_endpoint",
    "judge_retries",
    "judge_tokens",
    "jurors",
    "members_of",
    "message_text",
    "model_reply",
    "openai_client",
    "price_list",
    "refusal_of",
    "refused_setting",
    "secrets_in",
    "seed_of",
    "total_bounds",
    "usage_of",
    "usage_of_sdk",
    "usage_of_span",
    "with_seed",
]
