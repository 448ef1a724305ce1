"""Groups of commands: in the order in which they are written down, each imported when it is asked for."""

from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module

import click


class OrderedGroup(click.Group):
    """Lists the commands in the order in which they were added, not by the alphabet."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        del ctx
        return list(self.commands)


class LazyCommands(MutableMapping[str, click.Command]):
    """Commands by name. A command's module is imported when the command is looked up: `ls` needs no other command's."""

    def __init__(self, package: str | None, modules: Mapping[str, str]) -> None:
        """Take the module of `package` for each name; the module holds the command under its own last name."""
        self._package = package
        self._commands: dict[str, str | click.Command] = {**modules}

    def __getitem__(self, name: str) -> click.Command:
        """Return a command."""
        command = self._commands[name]
        if isinstance(command, str):
            module = import_module(f"{self._package}.{command}")
            self._commands[name] = command = getattr(module, command)
        return command

    def __setitem__(self, name: str, command: click.Command) -> None:
        """Add a command, or put it in another's place."""
        self._commands[name] = command

    def __delitem__(self, name: str) -> None:
        """Take a command out."""
        del self._commands[name]

    def __iter__(self) -> Iterator[str]:
        """Yield the names in order."""
        return iter(self._commands)

    def __len__(self) -> int:
        """How many commands there are."""
        return len(self._commands)
