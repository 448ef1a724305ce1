"""Settings: where they come from, what is wrong with them, and who gets to see a key."""

from collections.abc import Mapping
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.errors import ExitCode, UsageError
from harness.core.settings import SETTINGS, Settings, as_written
from harness.core.settings_sources import changed, load, merge_sources
from harness.core.unicode import without_credentials
from harness.endpoints import address
from harness.endpoints.address import Endpoint
from harness.endpoints.credentials import Credentials
from tests.builders import names

KEY = "sk-the-agents-own"
OWN = "https://models.example/v1"
THIRD = "https://third.example/v1"


def config(folder: Path, text: str) -> Path:
    path = folder / "settings.yaml"
    path.write_text(text, "utf-8")
    return path


# ---- Precedence


@pytest.mark.parametrize("flag", [None, 3])
@pytest.mark.parametrize("env", [None, 4])
@pytest.mark.parametrize("yaml", [None, 5])
def test_flags_beat_the_environment_beats_yaml_beats_defaults(
    tmp_path: Path, flag: int | None, env: int | None, yaml: int | None
) -> None:
    environ = {} if env is None else {"HARNESS_N": str(env)}
    path = None if yaml is None else config(tmp_path, f"n: {yaml}")
    expected = next(v for v in (flag, env, yaml, 8) if v is not None)
    assert load(merge_sources({"n": flag}, environ, path)).n == expected


def test_each_source_counts_setting_by_setting(tmp_path: Path) -> None:
    path = config(tmp_path, "judge-model: from-yaml\nmax_turns: 7\ntemperature: 0.5")
    found = load(
        merge_sources({"temperature": 1.0, "n": None}, {"HARNESS_MAX_TURNS": "9", "HARNESS_OFFLINE": "true"}, path)
    )
    assert (found.temperature, found.max_turns, found.judge_model, found.offline, found.n) == (
        1.0,
        9,
        "from-yaml",
        True,
        8,
    )


def test_a_flag_that_says_no_is_given() -> None:
    assert (
        load(merge_sources({"show_instructions": False}, {"HARNESS_SHOW_INSTRUCTIONS": "1"}, None)).show_instructions
        is False
    )
    assert load(merge_sources({"max_failures": 0}, {"HARNESS_MAX_FAILURES": "3"}, None)).max_failures == 0


def test_the_process_s_environment_is_read_only_where_it_is_handed_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_N", "3")
    assert load({}).n == load(merge_sources({}, {}, None)).n == 8


def test_keys_and_other_people_s_variables_are_no_settings() -> None:
    assert (
        merge_sources({}, {"HARNESS_JUDGE_API_KEY": "sk", "OPENAI_API_KEY": "sk", "N": "3", "HARNESS_": "x"}, None)
        == {}
    )


def test_an_empty_config_sets_nothing(tmp_path: Path) -> None:
    assert merge_sources({}, {}, config(tmp_path, "")) == merge_sources({}, {}, config(tmp_path, "# nothing\n")) == {}


def test_settings_do_not_change() -> None:
    with pytest.raises(FrozenInstanceError):
        load({}).n = 3  # pyright: ignore[reportAttributeAccessIssue]


def test_settings_written_down_are_the_settings_read_back() -> None:
    found = load({"n": 3, "corpus": "texts", "judge_base_url": OWN, "order": "single"})
    assert load(as_written(found)) == found


def test_pooled_ranks_unless_an_estimator_is_named_and_a_budget_given_later_picks_it_anew() -> None:
    assert load({}).estimator == load({"budget": 28}).estimator == "pooled"
    assert load({"budget": 28, "estimator": "wins"}).estimator == "wins"
    assert load(changed({"topology": "arena", "estimator": "tiers"}, {"budget": 28})).estimator == "pooled"


def test_auto_is_cyclic_from_six_rollouts_on_or_with_a_budget_and_else_arena() -> None:
    auto = [load({"topology": "auto", "n": n}).topology for n in (2, 5, 6, 16)]
    assert auto == ["arena", "arena", "cyclic", "cyclic"]
    assert load({"topology": "auto", "n": 4, "budget": 6}).topology == "cyclic"
    assert load(changed(as_written(load({"topology": "auto"})), {"topology": "arena"})).budget is None


def test_a_budget_picks_the_cyclic_design_unless_a_topology_is_named() -> None:
    assert load({"budget": 28}).topology == load({"budget": 28, "topology": "cyclic"}).topology == "cyclic"
    assert load({}).topology == load({"budget": None}).topology == "arena"
    with pytest.raises(UsageError, match="--budget 28 with --topology swiss"):
        load({"budget": 28, "topology": "swiss"})


@pytest.mark.parametrize(("n", "order", "least"), [(8, None, 7), (8, "both", 14), (2, None, 1)])
def test_a_budget_that_cannot_connect_all_rollouts_is_refused(n: int, order: str | None, least: int) -> None:
    assert load({"n": n, "order": order, "budget": least}).budget == least
    with pytest.raises(UsageError, match=f"at least {least} judge calls|--budget 0"):
        load({"n": n, "order": order, "budget": least - 1})


def test_a_budget_given_later_replaces_the_topology_of_a_run_and_a_topology_its_budget() -> None:
    of_arena, of_budget = as_written(load({})), as_written(load({"budget": 28}))
    assert load(changed(of_arena, {"budget": 28})).topology == "cyclic"
    assert load(changed(of_budget, {"topology": "swiss"})).budget is None
    assert load(changed(of_budget, {"topology": "cyclic"})).budget == load(changed(of_budget, {})).budget == 28


# ---- What is wrong with a value


BAD: list[tuple[str, Any]] = [
    ("n", 0),
    ("n", 257),
    ("n", -1),
    ("n", "many"),
    ("n", 2.5),
    ("n", [8]),
    ("n", ""),
    ("temperature", -0.1),
    ("temperature", 2.1),
    ("temperature", "hot"),
    ("temperature", float("nan")),
    ("temperature", "nan"),
    ("api", "soap"),
    ("judge", "coin"),
    ("judge_timeout", 0),
    ("judge_timeout", float("inf")),
    ("judge_concurrency", 0),
    ("show_instructions", "perhaps"),
    ("topology", "maze"),
    ("estimator", "guess"),
    ("order", "none"),
    ("failed", "never"),
    ("concurrency", 0),
    ("timeout", -3),
    ("timeout", "5 minutes"),
    ("max_turns", 0),
    ("max_failures", -1),
    ("seed", "x"),
    ("offline", 7),
    ("corpus", 7),
    ("runs_dir", []),
    ("rubric", 3),
    ("model", ["a", "b"]),
    ("n", "line\nbreak"),
]


@pytest.mark.parametrize(("name", "value"), BAD)
def test_a_bad_value_is_one_line_with_the_flag_and_the_value(name: str, value: Any) -> None:
    with pytest.raises(UsageError) as caught:
        load({name: value})
    said = str(caught.value)
    assert said.startswith(f"{'-n' if name == 'n' else '--' + name.replace('_', '-')} ")
    assert repr(value) in said
    assert "\n" not in said
    assert caught.value.exit_code == ExitCode.USAGE == 2


def test_a_bad_value_in_the_environment_is_named_by_its_variable() -> None:
    with pytest.raises(UsageError, match=r"^HARNESS_MAX_TURNS 'lots'"):
        load(merge_sources({}, {"HARNESS_MAX_TURNS": "lots"}, None))


def test_all_bad_values_are_told_at_once() -> None:
    with pytest.raises(UsageError, match=r"-n 0: .*; --order 'sideways': "):
        load({"n": 0, "order": "sideways"})


@given(names)
def test_an_unknown_name_is_a_usage_error_whatever_it_is(name: str) -> None:
    if name not in SETTINGS:
        with pytest.raises(UsageError, match=f"no setting '{name}'"):
            load({name: 1})


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [("temprature", "temperature"), ("judge_modell", "judge_model"), ("max-turn", "max_turns"), ("Order", "order")],
)
def test_an_unknown_name_brings_the_nearest_known_one(tmp_path: Path, wrong: str, meant: str) -> None:
    with pytest.raises(UsageError, match=f"did you mean '{meant}'"):
        load(merge_sources({}, {}, config(tmp_path, f"{wrong}: 1")))


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"n: [", "is not YAML"),
        (b"- n\n- 3", "found a list"),
        (b"just words", "found a str"),
        (b"7", "found a int"),
        (b"seed: 2026-13-45", "is not YAML"),
        (b"\xff\xfe\x00", "is not"),
        (b"n: \x00", "is not YAML"),
        (b"n: 4\nn: 8", "'n' is set twice"),
        (b"max-turns: 4\nmax_turns: 8", "'max_turns' is set twice"),
        (b"temprature: 1", "no setting 'temprature'"),
        (b"n: !!python/object/apply:os.getcwd []", "is not YAML"),
    ],
)
def test_a_config_that_is_no_mapping_is_a_usage_error_with_its_name(tmp_path: Path, content: bytes, fault: str) -> None:
    path = tmp_path / "settings.yaml"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=fault) as caught:
        merge_sources({}, {}, path)
    assert str(caught.value).startswith(f"--config {path}")
    assert "\n" not in str(caught.value)


def test_a_config_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    for path in (tmp_path / "none.yaml", tmp_path):
        with pytest.raises(UsageError, match=f"--config {path}: "):
            merge_sources({}, {}, path)


# ---- Where the models are, as today's user names them


def today(settings: Settings, environ: dict[str, str]) -> Credentials:
    return Credentials.naming(environ, settings.base_url, settings.judge_base_url)


def agent_endpoint(settings: Settings, environ: dict[str, str]) -> Endpoint | None:
    return address.agent_endpoint(settings, today(settings, environ))


def judge_endpoint(settings: Settings, environ: dict[str, str]) -> Endpoint | None:
    return address.judge_endpoint(settings, today(settings, environ))


def jurors(settings: Settings, environ: dict[str, str]) -> list[tuple[Settings, Mapping[str, str]]]:
    return [(seat, keys.environ) for seat, keys in address.jurors(settings, today(settings, environ))]


def test_without_key_and_address_there_is_no_endpoint() -> None:
    assert agent_endpoint(load({}), {}) is None
    assert judge_endpoint(load({}), {}) is None
    assert agent_endpoint(load({}), {"OPENAI_BASE_URL": "", "OPENAI_API_KEY": ""}) is None


@pytest.mark.parametrize(
    ("base_url", "api", "host"),
    [
        (None, "responses", "api.openai.com"),
        ("https://api.openai.com/v1", "responses", "api.openai.com"),
        ("http://localhost:8000/v1/", "chat", "localhost:8000"),
        ("https://me:secret@models.example/v1", "chat", "models.example"),
    ],
)
def test_the_api_is_responses_on_openai_s_own_address_and_chat_elsewhere(
    base_url: str | None, api: str, host: str
) -> None:
    found = agent_endpoint(load({"base_url": base_url}), {"OPENAI_API_KEY": KEY})
    assert found
    assert (found.api, found.host) == (api, host)
    for asked in ("chat", "responses"):
        other = agent_endpoint(load({"base_url": base_url, "api": asked}), {"OPENAI_API_KEY": KEY})
        assert other
        assert other.api == asked


def test_the_address_of_the_flag_beats_that_of_the_environment() -> None:
    found = agent_endpoint(load({"base_url": OWN}), {"OPENAI_BASE_URL": THIRD})
    assert found
    assert (found.base_url, found.key.get_secret_value()) == (OWN, "none")


@pytest.mark.parametrize("flag", ["base_url", "judge_base_url"])
@pytest.mark.parametrize(
    "url",
    [
        "localhost:8000",
        "ftp://models.example",
        "models.example/v1",
        "http://",
        "https:///v1",
        "http://[::1",
        "",
        "http://models.example:99999/v1",
        "http://models.example:port/v1",
        "http://[not-an-ip]/v1",
    ],
)
def test_an_address_that_is_none_is_a_usage_error_with_the_flag_and_the_value(flag: str, url: str) -> None:
    settings = load({flag: url})
    if url == "" and flag == "base_url":
        assert agent_endpoint(settings, {}) is None  # as if it were not given
        return
    with pytest.raises(UsageError) as caught:
        judge_endpoint(settings, {"OPENAI_API_KEY": KEY})
    assert str(caught.value).startswith(f"--{flag.replace('_', '-')} {url!r} is not")
    assert "\n" not in str(caught.value)


def test_the_address_of_the_environment_is_checked_as_well() -> None:
    with pytest.raises(UsageError, match="not an http"):
        agent_endpoint(load({}), {"OPENAI_BASE_URL": "localhost:8000"})


# ---- Who gets to see a key


def key_of(settings: dict[str, Any], environ: dict[str, str]) -> str | None:
    found = judge_endpoint(load(settings), environ)
    return found and found.key.get_secret_value()


AGENTS = [{"OPENAI_API_KEY": KEY}, {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": OWN}]


@pytest.mark.parametrize("environ", AGENTS)
@pytest.mark.parametrize(
    "judge",
    [
        THIRD,
        "http://localhost:8000/v1",
        "https://models.example:8443/v1",
        "https://models.example.third.example/v1",
        "https://api.openai.com.third.example/v1",
        "https://third.example/api.openai.com",
    ],
)
def test_the_agent_s_key_is_never_sent_to_a_third_host(environ: dict[str, str], judge: str) -> None:
    assert key_of({"judge_base_url": judge}, environ) == "none"


@pytest.mark.parametrize("environ", AGENTS)
@pytest.mark.parametrize("judge", [None, "https://api.openai.com/v1"])
def test_the_agent_s_key_goes_along_to_its_own_host_and_to_openai_s(environ: dict[str, str], judge: str | None) -> None:
    assert key_of({"judge_base_url": judge}, environ) == KEY


def test_the_agent_s_key_goes_along_to_another_path_of_its_own_host() -> None:
    assert key_of({"judge_base_url": "https://models.example/judges/v2"}, AGENTS[1]) == KEY


@pytest.mark.parametrize("environ", [{}, *AGENTS])
@pytest.mark.parametrize("judge", [None, OWN, THIRD, "https://api.openai.com/v1"])
def test_a_judge_s_own_key_is_the_one_that_the_judge_gets(environ: dict[str, str], judge: str | None) -> None:
    assert key_of({"judge_base_url": judge}, environ | {"HARNESS_JUDGE_API_KEY": "sk-judge"}) == "sk-judge"


@pytest.mark.parametrize("environ", AGENTS)
def test_a_judge_without_an_address_is_where_the_agent_is(environ: dict[str, str]) -> None:
    for api in (None, "chat", "responses"):
        assert judge_endpoint(load({"api": api}), environ) == agent_endpoint(load({"api": api}), environ)


def test_the_judge_s_api_is_its_own_where_its_address_is() -> None:
    found = judge_endpoint(load({"api": "responses", "judge_base_url": THIRD}), AGENTS[1])
    asked = judge_endpoint(load({"judge_api": "responses", "judge_base_url": THIRD}), AGENTS[1])
    assert found
    assert asked
    assert (found.api, asked.api) == ("chat", "responses")


def test_a_key_is_not_printed() -> None:
    found = agent_endpoint(load({}), {"OPENAI_API_KEY": KEY})
    assert found
    assert KEY not in f"{found} {found!r} {found.model_dump()} {found.model_dump_json()}"


@pytest.mark.parametrize(
    ("url", "left"),
    [
        (None, None),
        (OWN, OWN),
        ("https://me:pass@models.example:8443/v1", "https://models.example:8443/v1"),
        ("https://token@models.example/v1?api-key=secret#secret", "https://models.example/v1"),
        ("https://a:b@c@models.example/v1", "https://models.example/v1"),
        ("http://me:pass@[::1]:8000/v1", "http://[::1]:8000/v1"),
    ],
)
def test_user_password_query_and_fragment_are_not_written_down(url: str | None, left: str | None) -> None:
    assert without_credentials(url) == left


@given(st.text("abcXYZ0189:@!$&", min_size=1, max_size=12))
def test_no_part_of_the_credentials_is_left_whatever_they_are(secret: str) -> None:
    assert without_credentials(f"https://{secret}@models.example/v1") == OWN


@pytest.mark.parametrize("tokens", [0, 200, 32_000])
def test_a_judge_budget_is_no_limit_or_enough_for_something_to_be_left(tokens: int) -> None:
    assert load({"judge_budget": tokens}).judge_budget == tokens


@pytest.mark.parametrize("tokens", [-1, 1, 199])
def test_a_judge_budget_of_scraps_is_refused_in_a_line(tokens: int) -> None:
    with pytest.raises(UsageError, match=f"--judge-budget {tokens}: should be 0 .no limit. or at least 200"):
        load({"judge_budget": tokens})


# ---- A jury


def test_a_text_where_a_list_is_due_is_refused_in_plain_words() -> None:
    with pytest.raises(UsageError, match=r"--approve 'send': should be a list "):
        load({"approve": "send"})


def test_one_model_given_as_a_list_is_that_model_and_several_are_kept_in_order() -> None:
    assert load({"judge_model": ["j"]}).judge_model == "j"
    found = load({"judge_model": ["j", "k"], "judge_base_url": [OWN], "jury": "median"})
    assert (found.judge_model, found.judge_base_url) == (("j", "k"), OWN)
    assert load(as_written(found)) == found
    assert merge_sources({"judge_model": []}, {"HARNESS_JUDGE_MODEL": "e"}, None) == {"judge_model": "e"}


def test_each_juror_has_its_own_address_and_key_and_a_single_key_goes_to_the_first_host_alone() -> None:
    two = load({"judge_model": ["j", "k"], "judge_base_url": [OWN, THIRD]})
    one_key = jurors(two, {"HARNESS_JUDGE_API_KEY": "sk-1"})
    assert [(s.judge_model, s.judge_base_url, e["HARNESS_JUDGE_API_KEY"]) for s, e in one_key] == [
        ("j", OWN, "sk-1"),
        ("k", THIRD, ""),
    ]
    both = jurors(two, {"HARNESS_JUDGE_API_KEY": "sk-1, sk-2"})
    assert [e["HARNESS_JUDGE_API_KEY"] for _, e in both] == ["sk-1", "sk-2"]
    with pytest.raises(UsageError, match="3 keys"):
        jurors(two, {"HARNESS_JUDGE_API_KEY": "a,b,c"})
    with pytest.raises(UsageError, match="give one for all, or one for each"):
        jurors(load({"judge_model": ["j", "k", "l"], "judge_base_url": [OWN, THIRD]}), {})


@pytest.mark.parametrize(
    ("name", "value", "flag"),
    [
        ("topology", "none", "--topology none"),
        ("judge_when", "tied", "--judge-when tied"),
        ("require_citations", True, "--require-citations"),
    ],
)
def test_a_listwise_judge_refuses_what_it_cannot_keep_to(name: str, value: object, flag: str) -> None:
    with pytest.raises(UsageError, match=f"{flag} with --judge ruler"):
        load({"judge": "ruler", name: value})
