"""docs/commands.md lists every setting as it is declared. After a change: `python -m tests.cli.test_settings_table`.

That renews the settings' types for Python callers as well.
"""

from pathlib import Path

import click

from harness.cli.app import app
from harness.core.settings import SETTINGS
from tests.core.test_settings_types import renew_types

PAGE = Path(__file__).resolve().parents[2] / "docs" / "commands.md"
BEGIN, END = "<!-- settings: generated -->\n", "<!-- end of settings -->"


def settings_table() -> str:
    """Return every setting's option and what holds without it."""
    rows = dict[str, str]()
    for setting in SETTINGS.values():
        flags = f"{setting.flag}, {setting.off_flag}" if setting.off_flag else setting.flag
        rows[flags] = setting.default_shown or ("off" if setting.default is False else "none")
    width = max(map(len, rows))
    shown = "".join(f"{flags:{width}}  {default}\n" for flags, default in rows.items())
    return "```\n" + shown.replace("`", "") + "```\n"


def test_the_table_of_settings_is_the_one_that_the_declarations_make():
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    shown, mark, _ = rest.partition(END)
    assert before
    assert mark
    assert shown == settings_table()


def test_every_setting_says_in_a_sentence_what_it_is_for():
    for setting in SETTINGS.values():
        assert setting.help.endswith(".")


def test_every_setting_is_an_option_of_some_command():
    commands = [app.get_command(click.Context(app), name) for name in app.list_commands(click.Context(app))]
    options = {option.name for command in commands if command for option in command.params}
    assert set(SETTINGS) <= options


if __name__ == "__main__":
    page = PAGE.read_text("utf-8")
    head, tail = page.split(BEGIN)[0], page.split(END)[1]
    PAGE.write_text(head + BEGIN + settings_table() + END + tail, "utf-8")
    renew_types()
