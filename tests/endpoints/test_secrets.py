"""Keys and passwords are found wherever a command may hold them."""

from harness.endpoints import secrets_in


def test_keys_count_whole_and_one_by_one() -> None:
    environ = {"OPENAI_API_KEY": "sk-agent\n", "HARNESS_JUDGE_API_KEY": "sk-one, sk-two", "OTHER_KEY": "sk-other"}
    assert set(secrets_in(environ)) == {"sk-agent", "sk-one", "sk-two", "sk-one, sk-two"}


def test_passwords_in_addresses_count_as_written_and_unquoted() -> None:
    environ = {"OPENAI_BASE_URL": "https://me:of-env@a.b/v1"}
    addresses = ("http://me:p%40ss@host/v1", ("http://me:of-juror@c.d", None), None, "http://[", 7, "https://host/v1")
    assert set(secrets_in(environ, *addresses)) == {"of-env", "p%40ss", "p@ss", "of-juror"}


def test_nothing_set_holds_no_secret() -> None:
    assert secrets_in({}) == ()
