"""A request leaves in one piece, over TLS too, whatever its size and however early its server answers."""

import asyncio
import shutil
import ssl
import subprocess
from contextlib import aclosing, suppress
from pathlib import Path

import httpx2
import pytest

from harness.endpoints.pooled_client import PooledClient

BODY = b'{"model": "m"}'
LARGE = b"x" * (3 << 20)


async def posted(
    bodies: list[bytes], tls: ssl.SSLContext | None = None, *, reads_all: bool = True
) -> list[list[bytes]]:
    """Return what came of each body, part by part, at a server that reads a request until it is whole, or answers."""
    requests: list[list[bytes]] = []
    handlers: list[asyncio.Task[None]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        handlers.extend(filter(None, [asyncio.current_task()]))
        while part := await reader.read(1 << 16):
            parts = [part]
            requests.append(parts)
            head, _, came = part.partition(b"\r\n\r\n")
            size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            while reads_all and len(came) < size:
                parts.append(await reader.read(1 << 16))
                came += parts[-1]
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            if not reads_all:
                break
        await closed(writer)

    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls) as listening:
        address = f"http{'s' if tls else ''}://127.0.0.1:{listening.sockets[0].getsockname()[1]}/"
        async with aclosing(PooledClient(trust_env=False, verify=False)) as client:
            for body in bodies:
                assert (await client.post(address, content=body)).text == "ok"
        await asyncio.wait(handlers)
    return requests


async def closed(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(ConnectionError, ssl.SSLError):
        await writer.wait_closed()


def certified(folder: Path) -> ssl.SSLContext:
    words = "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=here -days 2 -keyout key.pem -out certificate.pem"
    subprocess.run(words.split(), cwd=folder, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "certificate.pem", folder / "key.pem")
    return context


@pytest.mark.parametrize("tls", [False, pytest.param(True, marks=pytest.mark.process)])
def test_head_and_body_come_together_and_a_large_body_whole(tls: bool, tmp_path: Path):
    if tls and not shutil.which("openssl"):
        pytest.skip("openssl is not installed: no certificate for the test")
    small, large, again = asyncio.run(posted([BODY, LARGE, BODY], certified(tmp_path) if tls else None))
    for parts, body in ((small, BODY), (large, LARGE), (again, BODY)):
        assert b"".join(parts).partition(b"\r\n\r\n")[2] == body
    assert len(small) == len(again) == 1


def test_an_answer_that_comes_before_the_body_is_read_is_the_reply():
    asyncio.run(posted([BODY, BODY], reads_all=False))


def test_a_server_that_hangs_up_is_a_connection_error():
    async def work() -> None:
        async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await closed(writer)

        async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as listening:
            address = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/"
            async with aclosing(PooledClient(trust_env=False, verify=False)) as client:
                for body in (BODY, LARGE):
                    with pytest.raises(httpx2.RequestError):
                        await client.post(address, content=body)

    asyncio.run(work())
