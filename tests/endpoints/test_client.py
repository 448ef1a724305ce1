"""Certificates are read once, and a change of where they are counts."""

import asyncio
import ssl
import zlib
from pathlib import Path

import pytest

from harness.core.settings_sources import load
from harness.endpoints.address import Endpoint, agent_endpoint, judge_endpoint
from harness.endpoints.client import openai_client
from harness.endpoints.credentials import Credentials
from harness.endpoints.reply_body import NoReply


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """Return what is loaded from now on: the file of each."""
    files: list[str | None] = []
    load = ssl.SSLContext.load_verify_locations

    def noted(self: ssl.SSLContext, cafile: str | None = None, *rest: object, **more: object) -> None:
        files.append(cafile)
        load(self, cafile, *rest, **more)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", noted)
    return files


def test_clients_share_the_certificates_and_a_change_of_their_place_counts(
    read: list[str | None], tmp_path: Path
) -> None:
    paths = ssl.get_default_verify_paths()
    machines = paths.openssl_cafile if Path(paths.openssl_cafile).is_file() else None
    if machines is None:
        pytest.skip("this machine keeps its certificates in no one file")
    copy = tmp_path / "copy.pem"
    copy.write_bytes(Path(machines).read_bytes())
    for _ in range(3):
        openai_client(endpoint({"SSL_CERT_FILE": str(copy)}))
    assert read.count(str(copy)) == 1
    openai_client(endpoint({"SSL_CERT_FILE": machines}))
    assert read[-1] == machines


def test_the_environment_of_the_process_names_no_certificates_to_a_client(
    read: list[str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/no/such/file.pem")
    openai_client(endpoint({}))
    assert "/no/such/file.pem" not in read


def test_agent_and_judge_get_the_certificates_that_the_environment_names() -> None:
    environ = {"OPENAI_API_KEY": "sk-a", "SSL_CERT_FILE": "own.pem", "SSL_CERT_DIR": "certs"}
    for found in (endpoint(load({}), Credentials.naming(environ)) for endpoint in (agent_endpoint, judge_endpoint)):
        assert found
        assert (found.certificates.file, found.certificates.folder) == ("own.pem", "certs")


@pytest.mark.anyio
async def test_a_small_body_that_unpacks_to_ten_gigabytes_is_no_reply() -> None:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    megabyte = packer.compress(b" " * 2**20) + packer.flush(zlib.Z_FULL_FLUSH)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-encoding: deflate\r\ncontent-length: 999999999\r\n\r\n")
        writer.write(megabyte * 10_000)

    async with await asyncio.start_server(answer, "127.0.0.1") as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        client = openai_client(endpoint({"OPENAI_BASE_URL": url}))
        with pytest.raises(NoReply, match="with more than 268,435,456 bytes"):
            await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "Why?"}])
        await client.close()


def endpoint(environ: dict[str, str]) -> Endpoint:
    found = agent_endpoint(load({}), Credentials.naming({"OPENAI_API_KEY": "sk-a"} | environ))
    assert found
    return found
