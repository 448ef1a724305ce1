"""Options and arguments that several commands share. Those of settings are made from their declarations."""

from collections.abc import Callable
from functools import wraps
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
json_option = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON on stdout.")
_WIDE = "harness.wide"


def _note_wide(context: click.Context, _: click.Parameter, wide: bool) -> None:
    context.meta[_WIDE] = wide


wide_option = click.option(
    "--wide",
    is_flag=True,
    expose_value=False,
    callback=_note_wide,
    help="Show all columns of tables, however narrow the terminal is.",
)
quiet_option = click.option(
    "--quiet", "-q", is_flag=True, help="No progress and no notes on stderr; errors are still printed."
)
report_option = click.option(
    "--report/--no-report",
    default=True,
    help="Write the run's page, once the result is printed; `harness report` writes it later. [default: --report]",
)
verbose_option = click.option("--verbose", "-v", is_flag=True, help="Show the logs of the SDK and of the retries.")


def is_wide(context: click.Context) -> bool:
    """Tell whether --wide was given."""
    return bool(context.meta.get(_WIDE))


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
        def with_flags(*args: Any, **values: Any) -> Any:
            options = {name: values.pop(name) for name in names}
            flags = {name: value for name, value in options.items() if value not in (None, ())} | values.pop(
                "flags", {}
            )
            return command(*args, flags=flags, **values)

        decorated: Callable[..., Any] = with_flags
        for name in reversed(names):
            decorated = setting_option(name, default=default)(decorated)
        return decorated

    return decorate


def repeated_options(*names: str) -> Decorator:
    """Add options of which several values make the sides of a comparison; the command gets a tuple of each."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        decorated: Callable[..., Any] = command
        for name in reversed(names):
            declared = SETTINGS.get(name)
            text = _help(declared, None) if declared else "A YAML file of settings, named as the options here."
            decorated = click.option(
                f"--{name}",
                type=click.STRING if name == "model" else FILE,
                metavar=None if name == "model" else "FILE",
                multiple=True,
                help=f"{text} Repeat it to compare one agent with itself so.",
            )(decorated)
        return decorated

    return decorate


def _help(setting: Setting, default: str | None) -> str:
    shown = setting.default_shown if default is None else default
    remarks = "; ".join(part for part in (f"default: {shown}" if shown else "", setting.bounds) if part)
    return f"{setting.help} [{remarks}]" if remarks else setting.help
