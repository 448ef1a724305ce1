"""Clients of other languages and libraries get the same through the gateway as from the upstream itself."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.fake_endpoint import FakeEndpoint, Say, Seen
from tests.gateway.serving import gateway, rollouts_in
from tests.gateway.test_same_replies import numbered
from tests.token_server import TokenServer

SCRIPT = """
const OpenAI = require("openai");
const client = new OpenAI({ apiKey: "any", baseURL: process.argv[2], maxRetries: 0 });
const tools = [{ type: "function", function: { name: "search", parameters: { type: "object", properties: {} } } }];
(async () => {
  const seen = [];
  const messages = [{ role: "user", content: "Why?" }];
  for (const more of [{}, { tools }, { logprobs: true }]) {
    seen.push(await client.chat.completions.create({ model: "m", messages, ...more }));
    const options = { stream_options: { include_usage: true } };
    const stream = await client.chat.completions.create({ model: "m", messages, stream: true, ...options, ...more });
    for await (const event of stream) seen.push(event);
  }
  seen.push(await client.responses.create({ model: "m", input: "Why?" }));
  const events = await client.responses.create({ model: "m", input: "Why?", stream: true });
  for await (const event of events) seen.push(event);
  console.log(JSON.stringify(seen));
})();
"""


def server(seen: Seen) -> Any:
    say = Say(calls=(("search", {"q": "sky"}),)) if seen.body.get("tools") else Say("It scatters.")
    return numbered(TokenServer(lambda _: say))(seen) if "messages" in seen.body else say


def plain(told: Any) -> Any:
    """Return what a client has without null logprobs, which the gateway asks for, and the numbers of calls."""
    if isinstance(told, dict):
        return {k: plain(v) for k, v in told.items() if not (k == "logprobs" and v is None)}
    if isinstance(told, list):
        return [plain(each) for each in told]
    return re.sub(r"call_[0-9]+_", "call_", told) if isinstance(told, str) else told


class SameIds(FakeEndpoint):
    """Gives all replies of the Responses API one id."""

    def answer(self, seen: Seen) -> Any:
        self.ids = iter([1])  # pyright: ignore[reportAttributeAccessIssue] - in the place of a counter
        return super().answer(seen)


@pytest.mark.process
def test_the_javascript_client_gets_the_same_objects_and_events(tmp_path: Path):
    node = shutil.which("node")
    if node is None or subprocess.run([node, "-e", "require('openai')"], capture_output=True, check=False).returncode:
        pytest.skip("npm's openai is not installed where node finds it (NODE_PATH)")
    script = tmp_path / "client.cjs"
    script.write_text(SCRIPT)

    def told(url: str) -> Any:
        environ = os.environ | {"OPENAI_API_KEY": "any"}
        done = subprocess.run([node, script, url], capture_output=True, text=True, check=True, env=environ)
        return plain(json.loads(done.stdout))

    endpoint = SameIds(server)
    with endpoint.serving(), gateway(endpoint.base_url, tmp_path) as served:
        assert told(f"{served.url}/s/js/v1") == told(endpoint.base_url)
        assert served.close("js").json()["capture"] == "full"


def test_langchain_gets_the_same_messages_and_chunks(tmp_path: Path):
    langchain = pytest.importorskip("langchain_openai")

    def told(url: str) -> Any:
        model = langchain.ChatOpenAI(model="m", base_url=url, api_key="any", max_retries=0, stream_usage=True)
        tool = {"name": "search", "description": "d", "parameters": {"type": "object", "properties": {}}}
        messages = [model.invoke("Why?"), model.bind_tools([tool]).invoke("Why?"), *model.stream("Why?")]
        return [plain(m.model_dump(exclude={"id"})) for m in messages]

    endpoint = SameIds(server)
    with endpoint.serving(), gateway(endpoint.base_url, tmp_path) as served:
        through = told(f"{served.url}/s/lc/v1")
        assert json.loads(served.close("lc").content)["capture"] == "full"
        assert through == told(endpoint.base_url)
    (kept,) = rollouts_in(served.folder)
    assert kept.sampled_tokens
