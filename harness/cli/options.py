"""How commands are declared, and the options that several share; those of settings are made from their declarations.

A declaration loads no work, so that `--help` is quick: a command's module is imported when the command runs, and may
import at its top whatever the work needs.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from harness.cli import completion
from harness.core.setting import Setting
from harness.core.settings import SETTINGS

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

FILE = click.Path(path_type=Path)
RANKING_SETTINGS = (
    *(
        "judge",
        "judge_model",
        "judge_base_url",
        "judge_api",
        "judge_label",
        "judge_tier",
        "judge_batch",
        "judge_budget",
        "judge_repeats",
        "jury",
    ),
    *("rubric", "topology", "estimator", "judge_profile", "reward", "order", "budget", "failed", "anchor_failed"),
    "judge_when",
)
"""The settings of judging and ranking that `run` and `rescore` share."""
_COMPLETIONS = {"rubric": completion.rubric_names}
_TYPES: dict[Any, click.ParamType[Any]] = {int: click.INT, float: click.FLOAT, bool: click.BOOL, Path: FILE}

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
agent_option = click.option(
    "--agent",
    "-a",
    default="search",
    shell_complete=completion.agent_names,
    help="NAME (agents_config/NAME.py), module:attr or path.py:attr. [default: search]",
)
config_option = click.option(
    "--config", type=FILE, metavar="FILE", help="A YAML file of settings, named as the options here."
)
reuse_option = click.option(
    "--reuse",
    multiple=True,
    metavar="RUN",
    shell_complete=completion.run_ids,
    help="Take verdicts with the same key from this run. Repeatable.",
)
trust_option = click.option(
    "--trust-archive",
    is_flag=True,
    help="Send keys to every address that the run names, and believe its --corpus, --approve and --upload-traces.",
)
dry_run_option = click.option(
    "--dry-run", is_flag=True, help="Check everything, print what the work would take, and stop."
)
wait_option = click.option(
    "--wait", is_flag=True, help="With --judge-batch: stay until the batches are over, and go on with what came back."
)
labels_option = click.option(
    "--labels",
    type=FILE,
    metavar="FILE",
    help="Labelled pairs of answers, as `doctor --judge --pairs` reads them. [default: labels.jsonl of the run]",
)
_WIDE = "harness.wide"


def _note_wide(context: click.Context, _: click.Parameter, wide: bool) -> None:
    context.meta[_WIDE] = wide


def is_wide(context: click.Context) -> bool:
    """Tell whether --wide was given."""
    return bool(context.meta.get(_WIDE))


@dataclass(frozen=True)
class Caller:
    """What a user may say to whichever command: the environment, where runs are, what to print and write."""

    environ: Mapping[str, str]
    runs_dir: Path | None = None
    as_json: bool = False
    quiet: bool = False
    report: bool = True
    """Whether the page of a run is written."""
    verbose: bool = False


_OF_CALLER = {
    "json": click.option("--json", "as_json", is_flag=True, help="Print the result as JSON on stdout."),
    "wide": click.option(
        "--wide",
        is_flag=True,
        expose_value=False,
        callback=_note_wide,
        help="Show all columns of tables, however narrow the terminal is.",
    ),
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
    """Add those of the options that any command may have; the command gets them and the environment as `caller`."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        def make(**values: Any) -> Caller:
            return Caller(click.get_current_context().obj or {}, **values)

        known = [field.name for field in fields(Caller)]
        return _gathered(command, "caller", make, known, [_OF_CALLER.get(n) or setting_option(n) for n in names])

    return decorate


def record(name: str, kind: type[Any], *parameters: Decorator) -> Decorator:
    """Add options that the command gets as one record, `name`: those that are named as the fields of `kind`."""
    return lambda command: _gathered(command, name, kind, [field.name for field in fields(kind)], parameters)


def _gathered(
    command: Callable[..., Any],
    name: str,
    make: Callable[..., Any],
    members: Sequence[str],
    parameters: Sequence[Decorator],
) -> Callable[..., Any]:
    """Return a command that hands on what `make` makes of the values of its `members` as one argument, `name`."""

    @wraps(command)
    def with_record(**values: Any) -> Any:
        return command(**{name: make(**{m: values.pop(m) for m in members if m in values})}, **values)

    return _with_all(with_record, parameters)


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
    text = _help(SETTINGS[name], None) if name in SETTINGS else "A YAML file of settings, named as the options here."
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
