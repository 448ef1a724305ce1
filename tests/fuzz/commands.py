"""The commands of the app, and argument lists for them: a new command is attacked without anyone thinking of it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

import click

from harness.cli.app import app

RUN_ARGUMENTS = {"run", "runs"}
FREE = ("--offline", "-n", "2")
"""What makes a command that rolls out use the embedded model, on two rollouts."""
EMBEDDED_JUDGE = ("--judge-model", "offline-features")
NOT_FOR_ATTACKS = {"help", "live", "verbose"}
"""Flags that no attack sets by itself: --live asks a model server, --verbose shows the logs of libraries."""


@dataclass(frozen=True)
class Command:
    """A command as the app declares it."""

    words: tuple[str, ...]
    """What a user types: `("rubric", "check")`."""
    arguments: Mapping[str, click.Argument]
    options: Mapping[str, click.Option]

    @property
    def name(self) -> str:
        return " ".join(self.words)

    @property
    def reads_runs(self) -> bool:
        """Whether the command opens runs: it takes a RUN, lends from one, or lists them."""
        return self.takes_run or "reuse" in self.options or ("runs_dir" in self.options and not self.required)

    @property
    def takes_run(self) -> bool:
        return not RUN_ARGUMENTS.isdisjoint(self.arguments)

    @property
    def rolls_out(self) -> bool:
        """Whether the command asks an agent, so that FREE has to stand on its line."""
        return "offline" in self.options

    @property
    def required(self) -> tuple[str, ...]:
        """The names of the arguments that must be there."""
        return tuple(name for name, argument in self.arguments.items() if argument.required)

    @property
    def flags(self) -> tuple[str, ...]:
        """The options without a value."""
        return tuple(
            option
            for name, declared in self.options.items()
            if (declared.is_flag or declared.count) and name not in NOT_FOR_ATTACKS
            for option in (declared.opts[0], *declared.secondary_opts)
        )

    @property
    def valued(self) -> tuple[click.Option, ...]:
        """The options with a value."""
        return tuple(o for o in self.options.values() if not (o.is_flag or o.count))


@cache
def commands() -> tuple[Command, ...]:
    """Return every command of the app, those of groups too."""
    return tuple(_commands_of(app, ()))


def _commands_of(group: click.Group, words: tuple[str, ...]) -> Iterator[Command]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from _commands_of(command, (*words, name))
            continue
        arguments = {p.name: p for p in command.params if isinstance(p, click.Argument) and p.name}
        options = {p.name: p for p in command.params if isinstance(p, click.Option) and p.name}
        yield Command((*words, name), arguments, options)


@dataclass(frozen=True)
class Values:
    """What stands for an argument or a value on a command line; a name that is missing is left out where it can be."""

    run: str = "last"
    numbers: Sequence[str] = ("0", "1")
    by_name: Mapping[str, str] = field(default_factory=dict[str, str])
    """Values of arguments and options, by the parameter's name: `{"table": "table.json", "rubric": "mine.md"}`."""


def argument_lists(command: Command, values: Values) -> Iterator[tuple[str, ...]]:
    """Yield command lines for one command: plain, with --json, with each flag, with each value that is known.

    None spends: what rolls out is offline on two rollouts. A command that judges is also tried with the embedded judge.
    """
    plain = _plain(command, values)
    yield plain
    yield from ((*plain, flag) for flag in command.flags)
    if not command.rolls_out and "judge_model" in command.options:
        yield (*plain, *EMBEDDED_JUDGE)
    for option in command.valued:
        for value in _values_of(option, values):
            yield (*plain, option.opts[0], value)
            if "as_json" in command.options:
                yield (*plain, option.opts[0], value, "--json")
            yield from ((*plain, option.opts[0], value, flag) for flag in ("--transcript",) if flag in command.flags)


def lines_reading(values: Values) -> list[tuple[str, ...]]:
    """Return the command lines of every command that reads a run; of commands that roll out, those that name it."""
    return [
        line
        for command in commands()
        if command.reads_runs
        for line in argument_lists(command, values)
        if values.run in line or not command.rolls_out
    ]


def _plain(command: Command, values: Values) -> tuple[str, ...]:
    words = [_argument(name, values) for name in command.arguments if _is_set(command, name, values)]
    return (*command.words, *(FREE if command.rolls_out else ()), *words, *needed_options(command, values))


def needed_options(command: Command, values: Values, beside: str | None = None) -> Iterator[str]:
    """Yield the options that must be there, but for `beside`: of choices the first, of files a new one."""
    for name, option in command.options.items():
        if option.required and name != beside:
            usual = str(option.type.choices[0]) if isinstance(option.type, click.Choice) else "runs/new"
            yield from (option.opts[0], values.by_name.get(name, usual))
    if "allow_offline" in command.options:
        yield "--allow-offline"


def _is_set(command: Command, name: str, values: Values) -> bool:
    return name in RUN_ARGUMENTS or name in values.by_name or name in command.required


def _argument(name: str, values: Values) -> str:
    return values.run if name in RUN_ARGUMENTS else values.by_name.get(name, "nothing")


def _values_of(option: click.Option, values: Values) -> Sequence[str]:
    if option.name in values.by_name:
        return (values.by_name[option.name],)
    if option.name == "reuse":
        return (values.run,)
    if option.required and isinstance(option.type, click.Choice):
        return [str(choice) for choice in option.type.choices]
    return values.numbers if option.name in {"rollout", "match"} else ()
