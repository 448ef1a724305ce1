"""Keys and passwords are found wherever a command may hold them."""

from base64 import b64encode, urlsafe_b64encode
from urllib.parse import quote

import httpx2

from harness.endpoints.address import secrets_in, secrets_sent


def test_keys_count_whole_and_one_by_one() -> None:
    environ = {"OPENAI_API_KEY": "sk-agent\n", "HARNESS_JUDGE_API_KEY": "sk-one, sk-two", "OTHER_KEY": "sk-other"}
    assert set(secrets_in(environ)) == {"sk-agent", "sk-one", "sk-two", "sk-one, sk-two"}


def test_passwords_in_addresses_count_as_written_and_unquoted() -> None:
    environ = {"OPENAI_BASE_URL": "https://me:of-env@a.b/v1"}
    addresses = ("http://me:p%40ss@host/v1", ("http://me:of-juror@c.d", None), None, "http://[", 7, "https://host/v1")
    plain = {secret for secret in secrets_in(environ, *addresses) if ":" not in secret and len(secret) < 9}
    assert plain == {"of-env", "p%40ss", "p@ss", "of-juror"}


def test_the_basic_values_made_of_an_address_count_in_every_form() -> None:
    user, password = "me", "p\u00fc?>~ss"
    pair = f"{user}:{password}".encode()
    values = {b64encode(pair).decode(), urlsafe_b64encode(pair).decode()}
    assert len(values) == 2
    found = set(secrets_in({}, f"http://{user}:{quote(password)}@host/v1"))
    assert found >= values | {value.rstrip("=") for value in values} | {password, f"{user}:{quote(password)}@"}


def test_a_user_without_a_password_is_a_token() -> None:
    assert "token-1234" in secrets_in({}, "http://token-1234@host/v1")
    assert "token-1234" in secrets_in({}, "http://token-1234:@host/v1")
    assert "someone" not in secrets_in({}, "http://someone:password@host/v1")


def test_what_a_request_carries_is_what_the_client_made_of_the_address() -> None:
    auth = httpx2.BasicAuth("me", "pass-1234")
    request = next(auth.auth_flow(httpx2.Request("POST", "http://me:pass-1234@host/v1")))
    carried = secrets_sent(request)
    assert set(carried) >= {"pass-1234", b64encode(b"me:pass-1234").decode()}
    assert secrets_sent(httpx2.Request("POST", "http://host/v1", headers={"Authorization": "Bearer sk-1"})) == (
        "sk-1",
        "sk-1",
    )


def test_nothing_set_holds_no_secret() -> None:
    assert secrets_in({}) == ()
