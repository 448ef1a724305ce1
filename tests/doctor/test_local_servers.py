"""Model servers on this machine: shown with the command that uses them, and never switched to."""

import shlex
import socket

import pytest

from harness.core.errors import UsageError
from harness.doctor.local_servers import USUAL_PORTS, Server, find_servers, parse_ports, usual_model
from tests.doctor.examined import a_request, at, found_for_free
from tests.fake_endpoint import FakeEndpoint


def port_of(endpoint: FakeEndpoint) -> int:
    return int(endpoint.host.split(":")[1])


def unused_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@pytest.mark.parametrize(
    ("text", "ports"),
    [(None, tuple(USUAL_PORTS)), ("", ()), (" , ", ()), ("8000, 11434", (8000, 11434)), ("1,65535,1", (1, 65535))],
)
def test_ports_are_a_list_with_commas(text: str | None, ports: tuple[int, ...]):
    assert parse_ports(text) == ports


@pytest.mark.parametrize("text", ["80x", "70000", "0", "-1", "8000;1", "²"])
def test_what_is_no_port_is_a_usage_error(text: str):
    with pytest.raises(UsageError, match="--ports"):
        parse_ports(text)


def test_the_model_offered_is_the_first_that_is_no_embedding():
    assert usual_model(("nomic-Embed-text", "qwen3")) == "qwen3"
    assert usual_model(("nomic-embed-text",)) == usual_model(()) == "NAME"


def test_a_server_s_usual_port_is_said():
    assert Server(11434, ()).label == "127.0.0.1:11434 (usually Ollama)"
    assert Server(9, ()).label == "127.0.0.1:9"


@pytest.mark.anyio
async def test_servers_are_listed_in_the_order_of_the_ports_and_silent_ports_are_not(endpoint: FakeEndpoint):
    with FakeEndpoint().serving() as other:
        ports = [port_of(other), unused_port(), port_of(endpoint)]
        assert [s.port for s in await find_servers(ports)] == [ports[0], ports[2]]


@pytest.mark.anyio
async def test_a_local_server_is_shown_with_a_command_and_never_switched_to(endpoint: FakeEndpoint):
    endpoint.models = ["nomic-embed-text", "qwen 3; true"]
    checks = await found_for_free(a_request(), [port_of(endpoint)])
    assert "qwen 3; true" in checks["local server"].found
    assert checks["model"].found == "offline-extractive, the embedded one"
    words = shlex.split(checks["local server"].do or "")
    assert words[-2:] == ["--model", "qwen 3; true"]
    assert f"{endpoint.base_url}" in words
    assert endpoint.requests == []


@pytest.mark.anyio
async def test_a_server_in_use_is_shown_with_the_models_it_has(endpoint: FakeEndpoint):
    endpoint.models = ["qwen3:latest"]
    check = (await found_for_free(a_request(environ=at(endpoint), model="qwen3"), [port_of(endpoint)]))["local server"]
    assert (check.status, check.found) == ("ok", f"{endpoint.host} is the endpoint in use; it serves qwen3:latest")


@pytest.mark.anyio
async def test_without_a_server_the_ports_that_were_tried_are_named():
    port = unused_port()
    assert (await found_for_free(a_request(), [port]))["local server"].found == f"none at 127.0.0.1, ports {port}"
    assert (await found_for_free(a_request()))["local server"].found == "none looked for, by --ports"
