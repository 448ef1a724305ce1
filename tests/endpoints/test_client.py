"""Certificates are read once, and a change of where they are counts."""

import ssl
from pathlib import Path

import pytest

from harness.endpoints.client import http_client


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
    read: list[str | None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    paths = ssl.get_default_verify_paths()
    known = paths.openssl_cafile if Path(paths.openssl_cafile).is_file() else None
    if known is None:
        pytest.skip("this machine keeps its certificates in no one file")
    own = tmp_path / "own.pem"
    own.write_bytes(Path(known).read_bytes())
    monkeypatch.setenv("SSL_CERT_FILE", str(own))
    for _ in range(3):
        http_client()
    assert read.count(str(own)) == 1
    monkeypatch.setenv("SSL_CERT_FILE", known)
    http_client()
    assert read[-1] == known
