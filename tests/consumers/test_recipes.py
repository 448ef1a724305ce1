"""Recipes of examples/trainers with real packages: of verl, of NeMo Gym, and rLLM's gateway before the policy."""

import asyncio
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.fake_endpoint import FakeEndpoint, fair_judge
from tests.integrations.recipes import PACKAGES, install, recipe
from tests.integrations.test_trl_rollouts import SKY, Policy
from tests.token_server import TokenServer, ids, rendered, reply_text

pytestmark = [pytest.mark.consumers, pytest.mark.filterwarnings("default")]
PROMPT = [{"role": "user", "content": SKY}]


@pytest.fixture
def policy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeEndpoint]:
    monkeypatch.chdir(tmp_path)
    with FakeEndpoint(TokenServer(Policy()), fair_judge()).serving() as endpoint:
        monkeypatch.setenv("OPENAI_BASE_URL", endpoint.base_url)
        yield endpoint


def test_verls_own_output_takes_what_the_loop_returns(policy: FakeEndpoint, tmp_path: Path):
    real: Any = pytest.importorskip("verl.experimental.agent_loop.agent_loop")
    made = recipe("my_loop.py", tmp_path)
    assert issubclass(made["HarnessLoop"], real.AgentLoopBase)

    async def acquire(request: str) -> tuple[str, object]:
        return policy.base_url.removeprefix("http://").removesuffix("/v1"), None

    loop = SimpleNamespace(
        server_manager=SimpleNamespace(_acquire_server=acquire, _release_server=lambda *_: None),
        config=SimpleNamespace(actor_rollout_ref=SimpleNamespace(model=SimpleNamespace(path="m"))),
        rollout_config=SimpleNamespace(response_length=4096),
    )

    async def batch() -> list[Any]:
        runs = [made["HarnessLoop"].run(loop, {"temperature": 1.0}, uid="u", raw_prompt=PROMPT) for _ in range(3)]
        return list(await asyncio.gather(*runs))

    for output in asyncio.run(batch()):
        assert isinstance(output, real.AgentLoopOutput)
        tensors = output.as_dict()
        assert tensors["responses"].shape == tensors["response_mask"].shape == tensors["rollout_log_probs"].shape
        assert float(tensors["rm_scores"].sum()) == output.reward_score


def test_nemo_gyms_own_responses_keep_the_tokens_of_the_agents_calls(policy: FakeEndpoint, tmp_path: Path):
    pytest.importorskip("nemo_gym.base_responses_api_agent")
    servers: Any = pytest.importorskip("nemo_gym.server_utils")
    made = recipe("app.py", tmp_path)
    at = {"agent": f"{tmp_path}/agent.py", "policy_url": policy.base_url, "policy_model": "m", "judge_model": "j"}
    config = made["HarnessAgentConfig"](host="h", port=1, entrypoint="app.py", name="n", **at, group_size=3)
    agent = made["HarnessAgent"](config=config, server_client=servers.ServerClient.model_construct())
    body = {"responses_create_params": {"input": SKY}, "_ng_task_index": 4}
    requests = [made["RunRequest"](**body, _ng_rollout_index=number) for number in range(3)]

    async def batch() -> list[Any]:
        return list(await asyncio.gather(*map(agent.run, requests)))

    given = asyncio.run(batch())
    assert sorted(each.reward for each in given) == [0, 0.5, 1]
    for item in (item for each in given for item in each.model_dump()["response"]["output"]):
        assert item["prompt_token_ids"]
        assert len(item["generation_token_ids"]) == len(item["generation_log_probs"]) > 0


@contextmanager
def gateway_before(policy: FakeEndpoint) -> Generator[Any]:
    """Serve rLLM's gateway, and give its client."""
    gateway: Any = pytest.importorskip("rllm_model_gateway")
    uvicorn: Any = pytest.importorskip("uvicorn")
    config = gateway.GatewayConfig(workers=[{"url": policy.base_url}], store_worker="memory", sync_traces=True)
    server = uvicorn.Server(uvicorn.Config(gateway.create_app(config), port=0, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        with gateway.GatewayClient(f"http://127.0.0.1:{port}") as client:
            yield client
    finally:
        server.should_exit = True
        thread.join()


def test_rllms_gateway_keeps_the_tokens_of_each_call_of_the_flow(
    policy: FakeEndpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for name in [name for name in PACKAGES if not name.startswith("rllm")]:
        monkeypatch.delitem(PACKAGES, name)
    install(monkeypatch)
    made = recipe("my_flow.py", tmp_path)
    task = SimpleNamespace(id="t", instruction=SKY)
    with gateway_before(policy) as client:
        sessions = [client.create_session(f"t:{number}") for number in range(3)]

        async def flows() -> list[Any]:
            more = {"sampling_params": {"temperature": 1.0}, "is_validation": False, "model": "m"}
            configs = [SimpleNamespace(base_url=client.get_session_url(s), session_uid=s, **more) for s in sessions]
            return list(await asyncio.gather(*(made["search"](task, config) for config in configs)))

        trajectories = asyncio.run(flows())
        traces = {session: client.get_session_traces(session) for session in sessions}
    assert len({trajectory.reward for trajectory in trajectories}) > 1
    for calls in traces.values():
        assert len(calls) == 2
        for call in calls:
            assert call.prompt_token_ids == ids(rendered(call.messages))
            assert call.completion_token_ids == ids(reply_text(call.response_message))
            assert len(call.logprobs) == len(call.completion_token_ids)
