"""How commands are declared, and the options that several share; those of settings are made from their declarations.

A declaration loads no work, so that `--help` is quick: a command's module is imported when the command runs, and may
import at its top whatever the work needs.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from harness.cli import completion
from harness.cli.output import Caller
from harness.core.setting import Setting
from harness.core.settings import SETTINGS

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

FILE = click.Path(path_type=Path)
RANKING_SETTINGS = (
    *("judge", "judge_model", "judge_base_url", "judge_api", "judge_label", "judge_tier", "judge_batch"),
    *("judge_agent", "judge_agent_when", "judge_max_turns", "require_citations"),
    *("judge_budget", "judge_repeats", "jury", "rubric", "topology", "estimator", "judge_profile", "reward"),
    *("order", "budget", "failed", "anchor_failed", "judge_when"),
)
"""The settings of judging and ranking that `run` and `rescore` share."""
_OF_CONFIG = "A YAML file of settings, named as the options here."
_COMPLETIONS = {"rubric": completion.rubric_names}
_TYPES: dict[Any, click.ParamType[Any]] = {int: click.INT, float: click.FLOAT, bool: click.BOOL, Path: FILE}


def flag(name: str, help_text: str) -> Decorator:
    """Add an option without a value."""
    return click.option(name, is_flag=True, help=help_text)


def file_option(name: str, help_text: str) -> Decorator:
    """Add an option that names a file; the command gets its path."""
    return click.option(name, type=FILE, metavar="FILE", help=help_text)


def query_option(help_text: str = "The query's id, where the run has several.") -> Decorator:
    """Add the option that names a query of the command's run."""
    return click.option("--query", metavar="ID", shell_complete=completion.query_ids, help=help_text)


def ranking_option(help_text: str = "A ranking's id. [default: the newest]") -> Decorator:
    """Add the option that names a ranking of the command's run."""
    return click.option("--ranking", metavar="ID", help=help_text)


def agent_option(help_text: str, default: str | None = None) -> Decorator:
    """Add the option that names an agent."""
    return click.option("--agent", "-a", default=default, shell_complete=completion.agent_names, help=help_text)


def arguments(name: str, metavar: str, help_text: str, **attributes: Any) -> Decorator:
    """Add an argument of several words, or of none where `metavar` has brackets. `attributes` are click's."""
    required = not metavar.startswith("[")
    return click.argument(name, metavar=metavar, nargs=-1, required=required, help=help_text, **attributes)


def runs_argument(metavar: str, help_text: str) -> Decorator:
    """Add an argument of several runs, as `arguments`."""
    return arguments("runs", metavar, help_text, shell_complete=completion.run_ids)


query_argument = click.argument(
    "query",
    required=False,
    help="What to ask the agent; - for standard input. [default: the agent's first EXAMPLES entry]",
)
run_argument = click.argument(
    "run",
    metavar="[RUN]",
    default="last",
    shell_complete=completion.run_ids,
    help="A run's id, a prefix of one, a run's folder, or `last`. [default: last]",
)
run_agent_option = agent_option(
    "NAME (agents_config/NAME.py), module:attr or path.py:attr. [default: search]", "search"
)
config_option = file_option("--config", _OF_CONFIG)
reuse_option = click.option(
    "--reuse",
    multiple=True,
    metavar="RUN",
    shell_complete=completion.run_ids,
    help="Take verdicts with the same key from this run. Repeatable.",
)
trust_option = flag(
    "--trust-archive",
    "Send keys to every address that the run names, and believe its --corpus, --approve and --upload-traces.",
)
dry_run_option = flag("--dry-run", "Check everything, print what the work would take, and stop.")
wait_option = flag("--wait", "With --judge-batch: stay until the batches are over, and go on with what came back.")
labels_option = file_option(
    "--labels", "Labelled pairs of answers, as `doctor --judge --pairs` reads them. [default: labels.jsonl of the run]"
)
overwrite_option = flag("--force", "Write over a file that is there.")


_OF_CALLER = {
    "json": click.option("--json", "as_json", is_flag=True, help="Print the result as JSON on stdout."),
    "wide": flag("--wide", "Show all columns of tables, however narrow the terminal is."),
    "quiet": click.option(
        "--quiet", "-q", is_flag=True, help="No progress and no notes on stderr; errors are still printed."
    ),
    "report": click.option(
        "--report/--no-report",
        default=True,
        help="Write the run's page, once the result is printed; `harness report` writes it later. [default: --report]",
    ),
    "verbose": click.option("--verbose", "-v", is_flag=True, help="Show the logs of the SDK and of the retries."),
}


def caller(*names: str) -> Decorator:
    """Add those of the options that any command may have; the command gets them and the environment as `caller`.

    Other options that are named as a field of Caller, and stand before these, come in it, too.
    """
    return record("caller", Caller, *(_OF_CALLER.get(name) or setting_option(name) for name in names))


def record(name: str, kind: type[Any], *parameters: Decorator) -> Decorator:
    """Add options that the command gets as one record, `name`: those that are named as the fields of `kind`."""
    members = [each.name for each in fields(kind)]

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def with_record(**values: Any) -> Any:
            return command(**{name: kind(**{m: values.pop(m) for m in members if m in values})}, **values)

        return _with_all(with_record, parameters)

    return decorate


def _with_all(command: Callable[..., Any], parameters: Sequence[Decorator]) -> Callable[..., Any]:
    """Add parameters to a command, in the order in which its help lists them."""
    for parameter in reversed(parameters):
        command = parameter(command)
    return command


class OrderedGroup(click.Group):
    """A group that lists its commands in the order in which they were declared, not by the alphabet."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        del ctx
        return list(self.commands)


def declared(work: str, help_text: str, *parameters: Decorator, **attributes: Any) -> click.Command:
    """Return a command with these parameters. `work` is its function, as `module:name` of this room's modules.

    The module is imported when the command runs; of a group, when no command of it was named. `attributes` are click's.
    """
    module, _, function = work.partition(":")

    def call(**values: Any) -> Any:
        if click.get_current_context().invoked_subcommand is not None:
            return None
        return getattr(import_module(f"{__package__}.{module}"), function)(**values)

    return click.command(help=help_text, **attributes)(_with_all(call, parameters))


def setting_option(name: str, *, default: str | None = None) -> Decorator:
    """Add the option of a setting, under the setting's name; None or () where the user gave nothing.

    `default` replaces what the help says of the default, for a command whose default is another.
    """
    setting = SETTINGS[name]
    flags = f"{setting.flag}/{setting.off_flag}" if setting.off_flag else setting.flag
    return click.option(
        *((flags, "--n") if name == "n" else (flags,)),
        name,
        type=_TYPES.get(setting.types[0], click.STRING),
        is_flag=setting.types == (bool,),
        multiple=setting.repeatable,
        default=None,
        metavar=setting.metavar or (f"[{'|'.join(setting.choices)}]" if setting.choices else None),
        shell_complete=_COMPLETIONS.get(name) or (completion.among(*setting.choices) if setting.choices else None),
        help=_help(setting, default),
    )


def setting_options(*names: str, default: str | None = None) -> Decorator:
    """Add the options of settings; the command gets those that the user gave as one dict, `flags`."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def with_flags(*, flags: Mapping[str, Any] | None = None, **values: Any) -> Any:
            options = {name: values.pop(name) for name in names}
            given = {name: value for name, value in options.items() if value not in (None, ())}
            return command(flags=given | dict(flags or {}), **values)

        return _with_all(with_flags, [setting_option(name, default=default) for name in names])

    return decorate


def repeated_option(name: str) -> Decorator:
    """Add an option of which several values make the sides of a comparison; the command gets a tuple."""
    text = _help(SETTINGS[name], None) if name in SETTINGS else _OF_CONFIG
    is_file = name != "model"
    return click.option(
        f"--{name}",
        type=FILE if is_file else click.STRING,
        metavar="FILE" if is_file else None,
        multiple=True,
        help=f"{text} Repeat it to compare one agent with itself so.",
    )


def _help(setting: Setting, default: str | None) -> str:
    shown = setting.default_shown if default is None else default
    remarks = "; ".join(part for part in (f"default: {shown}" if shown else "", setting.bounds) if part)
    return f"{setting.help} [{remarks}]" if remarks else setting.help
