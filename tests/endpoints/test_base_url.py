"""An address names one host, to whoever reads it, and what may be a secret in it is shown nowhere."""

from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.errors import UsageError
from harness.core.settings_sources import load
from harness.endpoints.address import checked_base_url, judge_endpoint, jurors
from harness.endpoints.credentials import Credentials
from tests.conftest import Harness
from tests.fake_endpoint import FakeEndpoint, Refuse, Say, Seen, fair_judge

USER, PASSWORD = "someone", "pass-1234-word"
BASIC = "c29tZW9uZTpwYXNzLTEyMzQtd29yZA=="
"""What an HTTP client makes of both."""
SECRETS = (USER, PASSWORD, BASIC, BASIC.rstrip("="), "query-key-77")


def fault(url: str) -> str:
    with pytest.raises(UsageError) as caught:
        checked_base_url(url, "--base-url")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400
    return str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost:8000/v1",
        "https://api.openai.com/v1",
        "http://127.0.0.1:8080",
        "http://[::1]:8000/v1",
        "http://my_container:8000/v1",
        "https://me:p%40ss@models.example:8443/a%20b/v1",
        "https://xn--bcher-kva.example/v1",
        "HTTPS://Models.Example/v1",
        "https://eyJh.eyJz.sig:@models.example/v1",
        "http://host.:80/v1",
        "http://[fe80::1%25eth0]:8000/v1",
    ],
)
def test_the_addresses_of_model_servers_are_taken_as_they_are(url: str) -> None:
    assert checked_base_url(f" {url}/\n", "--base-url") == url


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://api.openai.com\\@evil.example/v1", "backslash"),
        ("http://evil.example\\.api.openai.com/v1", "backslash"),
        ("http://a b/v1", "space"),
        ("http://evil.example\t/v1", "space"),
        ("http://api.openai.com\u202e/v1", "unseen"),
        ("http://host\x00/v1", "unseen"),
        ("http://\udcff/v1", "unseen"),
        ("http://api.openai.com@evil.example/v1", "would call evil.example"),
        ("http://api.openai.com%2f@evil.example/v1", "would call evil.example"),
        ("http://api.opena\u0456.com/v1", "xn-- form"),
        ("http://\u2100.example/v1", "http"),
        ("http://evil.example%2f.api.openai.com/v1", "plain host"),
        ("http://a,b/v1", "plain host"),
        ("http://[v1.x]/v1", ""),
        ("http://host/v1?key=query-key-77", "query"),
        ("http://host/v1#query-key-77", "fragment"),
        ("http://host/v1?", "query"),
        ("http://" + "a" * 3000, "3,007 characters"),
        ("http://[", "not an http"),
    ],
)
def test_an_address_that_two_readers_may_take_for_two_hosts_is_refused(url: str, reason: str) -> None:
    assert reason in fault(url)


@pytest.mark.parametrize(
    "url",
    [
        f"{USER}:{PASSWORD}@host:8000",
        f"http:/{USER}:{PASSWORD}@host/v1",
        f"http://{USER}:{PASSWORD}/x@host/v1",
        f"http://{USER}:{PASSWORD}?x@host/v1",
        f"http://{USER}:{PASSWORD}%40host/v1",
        f"http://{USER}:{PASSWORD}@host:port/v1",
        f"ftp://{USER}:{PASSWORD}@host/v1",
        f"http://{USER}:{PASSWORD}@[/v1",
        "host/v1?key=query-key-77",
        "http://host/v1?key=query-key-77",
        f"http://{USER}:{PASSWORD}@host/v1?key=query-key-77",
    ],
)
def test_no_message_about_an_address_shows_what_may_be_secret(url: str) -> None:
    message = fault(url)
    assert not [secret for secret in SECRETS if secret in message]


CLIENT = httpx2.Client()


@given(st.text(st.sampled_from("ab.1:/@?#[]\\%-_ \t\u0456\u3002\uff0f"), max_size=16))
def test_the_host_that_is_checked_is_the_host_that_is_called(rest: str) -> None:
    try:
        url = checked_base_url(f"http://{rest}", "--base-url")
    except UsageError:
        return
    request = CLIENT.build_request("POST", f"{url}/chat")
    assert request.url.raw_host.decode("ascii") == urlsplit(url).hostname


def test_each_juror_s_address_is_checked() -> None:
    settings = load({"judge_model": ["a", "b"], "judge_base_url": ["http://host/v1", "http://[::1"]})
    with pytest.raises(UsageError, match=r"--judge-base-url 'http://\[::1' is not"):
        jurors(settings, Credentials({}))
    with pytest.raises(UsageError, match="--judge-base-url has a query"):
        judge_endpoint(load({"judge_base_url": "http://host/v1?k=v"}), Credentials({}))


# ---- Commands


def quoting(seen: Seen) -> Refuse:
    """A server that quotes the Basic value that it got, and the password, in its error."""
    return Refuse(401, f"bad credentials {seen.key}, {BASIC}, {BASIC.rstrip('=')}: {PASSWORD}")


def test_no_command_shows_or_keeps_what_an_address_holds(harness: Harness, tmp_path: Path) -> None:
    def agent(seen: Seen) -> Say | Refuse:
        if seen.key != f"Basic {BASIC}":
            return Refuse(400, "bad: who asks?")  # `resume` has the address from the run, which has no password
        return Say(f"{PASSWORD} {BASIC}") if len(endpoint.of_agent) == 1 else Refuse(400, f"bad: {BASIC} {PASSWORD}")

    with FakeEndpoint(agent, fair_judge()).serving() as endpoint:
        url = f"http://{USER}:{PASSWORD}@{endpoint.host}/v1"
        run = harness("run", "Why?", "--model", "m", "-n", "2", "--base-url", url, "--concurrency", "1")
        others = [harness("show", "last"), harness("show", "last", "--json"), harness("ls")]
        others.append(harness("resume", env={"OPENAI_BASE_URL": url}))
        endpoint.agent = quoting
        refused = harness("run", "Why?", "--model", "m", "-n", "2", env={"OPENAI_BASE_URL": url})
        doctor = [
            harness("doctor", "--model", "m", "--ports", endpoint.host.rpartition(":")[2], *more)
            for more in (("--base-url", url), ("--base-url", url, "--live"), ("--judge-base-url", url))
        ]
    assert refused.code == 2
    assert endpoint.requests[0].key == f"Basic {BASIC}"
    for done in (run, *others, refused, *doctor):
        assert not [secret for secret in SECRETS if secret in done.out + done.err], done.out + done.err
    for file in (path for path in tmp_path.rglob("*") if path.is_file()):
        assert not [secret for secret in SECRETS if secret.encode() in file.read_bytes()], file


@pytest.mark.parametrize("live", [(), ("--live",)])
def test_the_commands_that_doctor_suggests_have_words_for_user_and_password(
    harness: Harness, live: tuple[str, ...]
) -> None:
    url = f"http://{USER}:{PASSWORD}@127.0.0.1:1/v1"
    done = harness("doctor", "--judge-base-url", url, "--judge-model", "j", "--ports", "", *live)
    assert not [secret for secret in SECRETS if secret in done.out + done.err]
    assert "--judge-base-url http://USER:PASSWORD@127.0.0.1:1/v1" in done.out


def test_after_a_self_test_the_next_commands_have_words_for_user_and_password(harness: Harness) -> None:
    url = f"http://{USER}:{PASSWORD}@127.0.0.1:1/v1"
    done = harness("run", "--offline", "-n", "2", f"--base-url={url}", "--judge-model", "offline-features")
    assert done.code == 0
    assert not [secret for secret in SECRETS if secret in done.out + done.err]
    assert "--base-url=http://USER:PASSWORD@127.0.0.1:1/v1" in done.out


@pytest.mark.parametrize("text", ["base_url: [{}]", "judge_base_url: [{{a: '{}'}}]", "base_url: {}?k=query-key-77"])
def test_a_config_file_s_address_is_not_quoted(text: str, harness: Harness, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(text.format(f"http://{USER}:{PASSWORD}@host/v1"))
    done = harness("run", "Why?", "--model", "m", "--config", "c.yaml")
    assert done.code == 2
    assert not [secret for secret in SECRETS if secret in done.out + done.err]
