"""Messages name a setting and a call as whoever called does."""

import pytest

from harness.core.wording import call, from_python, joined, option, switch


@pytest.mark.parametrize(
    ("make", "on_the_command_line", "in_python"),
    [
        (lambda: option("judge_model"), "--judge-model", "judge_model="),
        (lambda: option("n", 3), "-n 3", "n=3"),
        (lambda: option("max_cost", 0.1 + 0.2), "--max-cost 0.3", "max_cost=0.3"),
        (lambda: option("rubric", "my file.md"), "--rubric my file.md", "rubric='my file.md'"),
        (lambda: option("approve", "NAME"), "--approve NAME", "approve=['NAME']"),
        (lambda: option("prices", {"m": "1/2"}), "--price m=1/2", "prices={'m': '1/2'}"),
        (lambda: switch("accept_changed_agent"), "--accept-changed-agent", "accept_changed_agent=True"),
        (lambda: joined(option("base_url"), "'x'"), "--base-url 'x'", "base_url='x'"),
        (lambda: joined("OPENAI_BASE_URL", ""), "OPENAI_BASE_URL", "OPENAI_BASE_URL"),
        (
            lambda: call("resume", "my runs/1", rubric="FILE"),
            "`harness resume 'my runs/1' --rubric FILE`",
            "`harness.resume('my runs/1', rubric='FILE')`",
        ),
    ],
    ids=range(10),
)
def test_a_message_names_options_on_the_command_line_and_arguments_in_python(make, on_the_command_line, in_python):
    assert make() == on_the_command_line
    with from_python():
        assert make() == in_python
    assert make() == on_the_command_line
