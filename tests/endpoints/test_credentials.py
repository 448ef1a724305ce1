"""A key goes to a server that today's user named, or to OpenAI's own, and to no other."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.errors import UsageError
from harness.core.settings_sources import load
from harness.endpoints.address import agent_endpoint, judge_endpoint, jurors
from harness.endpoints.credentials import Credentials

KEYS = {"OPENAI_API_KEY": "sk-agent", "HARNESS_JUDGE_API_KEY": "sk-judge"}
GATEWAY = "https://gateway.example/v1"
OTHER_SERVERS = [
    "http://gateway.example/v1",
    "https://gateway.example:8443/v1",
    "https://gateway.example.evil.example/v1",
    "https://evil.example/gateway.example/v1",
    "https://gateway.example@evil.example/v1",
    "https://gateway.example\\@evil.example/v1",
    "https://gateway.example.:443/v1",
    "http://api.openai.com/v1",
    "https://api.openai.com:444/v1",
    "https://api.openai.com.evil.example/v1",
    "https://api.openai.com@evil.example/v1",
]
SAME_SERVER = ["https://GATEWAY.example/v1", "https://gateway.example:443/judges", "https://me:pw@gateway.example/v1"]


@pytest.mark.parametrize("url", OTHER_SERVERS)
def test_a_key_does_not_go_to_another_scheme_port_or_host_than_the_one_named(url: str) -> None:
    credentials = Credentials.naming(KEYS, GATEWAY)
    for endpoint, setting in ((agent_endpoint, "base_url"), (judge_endpoint, "judge_base_url")):
        with pytest.raises(UsageError) as refused:
            endpoint(load({setting: url}), credentials)
        assert f"--{setting.replace('_', '-')}" in str(refused.value)
        assert "--trust-archive" in str(refused.value) or "@" in url  # one that can be misread is no address at all
        assert "sk-" not in str(refused.value)
        assert "pw" not in str(refused.value)


@pytest.mark.parametrize("url", [*SAME_SERVER, None, "https://api.openai.com/v1"])
def test_a_key_goes_to_the_server_named_however_written_and_to_openais_own(url: str | None) -> None:
    lent = judge_endpoint(load({"judge_base_url": url}), Credentials.naming(KEYS, GATEWAY))
    assert lent
    assert lent.key.get_secret_value() == "sk-judge"


@pytest.mark.parametrize("name", ["OPENAI_BASE_URL", "HARNESS_BASE_URL", "HARNESS_JUDGE_BASE_URL"])
def test_an_address_in_the_environment_is_named_by_its_user(name: str) -> None:
    assert Credentials.naming(KEYS | {name: GATEWAY}).may_go_to(GATEWAY)


@pytest.mark.parametrize("url", [url for url in OTHER_SERVERS if "@" not in url])
def test_where_no_key_is_set_the_address_is_used_without_one(url: str) -> None:
    asked = agent_endpoint(load({"base_url": url}), Credentials.naming({}))
    assert asked
    assert (asked.key.get_secret_value(), asked.named) == ("none", False)


def test_headers_that_may_hold_a_key_count_as_one() -> None:
    credentials = Credentials.naming({"OPENAI_CUSTOM_HEADERS": "X-Gateway-Key: abc"})
    with pytest.raises(UsageError, match="OPENAI_CUSTOM_HEADERS would go to https:"):
        agent_endpoint(load({"base_url": GATEWAY}), credentials)


def test_the_only_key_of_a_jury_goes_to_the_first_server_and_not_to_another_port_of_its_host() -> None:
    settings = load({"judge_model": ["j", "k"], "judge_base_url": [GATEWAY, "https://gateway.example:8443/v1"]})
    keys = [seat.environ["HARNESS_JUDGE_API_KEY"] for _, seat in jurors(settings, Credentials.naming(KEYS))]
    assert keys == ["sk-judge", ""]


def test_what_makes_no_call_is_not_refused_and_gets_no_key() -> None:
    endpoint = agent_endpoint(load({"base_url": GATEWAY}), Credentials.naming(KEYS).without_calls())
    assert endpoint
    assert endpoint.key.get_secret_value() == "none"


@given(st.text(max_size=40))
def test_whatever_is_named_names_no_server_that_is_not_written_there(text: str) -> None:
    named = Credentials.naming(KEYS, text, [text], f"http://{text}")
    assert not named.may_go_to("https://victim-of-nobody.example/v1")
