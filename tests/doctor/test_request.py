"""The run that the doctor is asked about: its settings, what set them, and the commands to type."""

import shlex
from pathlib import Path

import pytest

from harness.core.errors import UsageError
from tests.doctor.examined import a_request


def test_flags_come_before_the_environment_and_that_before_the_config_file(tmp_path: Path):
    config = tmp_path / "c.yaml"
    config.write_text("model: c\napi: responses\nrubric: c")
    request = a_request(environ={"HARNESS_MODEL": "e", "HARNESS_RUBRIC": "e"}, config=config, model="f", api=None)
    settings = request.settings
    assert (settings.model, settings.rubric, settings.api) == ("f", "e", "responses")
    origins = [request.origin(name) for name in ("model", "rubric", "api", "base_url")]
    assert origins == ["--model", "HARNESS_RUBRIC", f"--config {config}", None]


def test_a_setting_that_cannot_be_read_is_a_usage_error():
    with pytest.raises(UsageError, match="--api"):
        _ = a_request(api="soap").settings


def test_a_command_repeats_the_flags_but_for_the_changes_and_can_be_pasted():
    request = a_request("my agent.py", model="a b", judge_model=["j", "k"], api="chat", rubric=None)
    words = shlex.split(request.command("run", base_url="http://x/v1", api=None))
    assert words[:6] == ["python", "-m", "harness", "run", "--agent", "my agent.py"]
    assert words[6:] == [
        "--model",
        "a b",
        "--judge-model",
        "j",
        "--judge-model",
        "k",
        "--base-url",
        "http://x/v1",
    ]


def test_keys_and_passwords_are_secrets():
    request = a_request(
        environ={"OPENAI_API_KEY": "one", "HARNESS_JUDGE_API_KEY": "two, three", "OPENAI_BASE_URL": "http://u:four@x"},
        base_url="http://u:five@x",
        judge_base_url=["http://u:six@x", "http://x"],
    )
    assert {"one", "two", "three", "four", "five", "six"} <= set(request.secrets)
    assert "" not in a_request().secrets
