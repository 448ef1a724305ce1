"""Completion in a shell: what `--agent` and RUN may be, and the file that makes a shell ask."""

import shlex
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import click
from click.shell_completion import CompletionItem, get_completion_class

from harness.cli.output import say
from harness.core.run_folders import MADE_BY

SHELLS = ("bash", "zsh", "fish")
Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def among(*words: str) -> Complete:
    """Return what completes a word by those of `words` that begin so."""
    return lambda _context, _parameter, begun: _beginning(words, begun)


def agent_names(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Complete the name of an agent. No agent is loaded for that."""
    from harness.rollouts.loading import names_of_agents

    return _beginning(names_of_agents(Path.cwd()), begun) or [CompletionItem(begun, type="file")]


def run_ids(context: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Complete the id of a run, a comparison or an improvement, the newest first."""
    try:
        files = [path for name in MADE_BY for path in _parent(context).glob(f"*/{name}")]
    except OSError:  # no folder, or one that may not be read: there is nothing to offer
        files = []
    names = sorted((path.parent.name for path in files), reverse=True)
    return _beginning(["last", *names], begun) or [CompletionItem(begun, type="dir")]


def _parent(context: click.Context) -> Path:
    environ: Mapping[str, str] = context.obj or {}
    return Path(context.params.get("runs_dir") or environ.get("HARNESS_RUNS_DIR") or "runs")


def rubric_names(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Complete the name of a packaged rubric, or a file."""
    from harness.judging.rubric import packaged_rubrics

    return _beginning(packaged_rubrics(), begun) or [CompletionItem(begun, type="file")]


def sort_keys(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Complete what a table of queries is sorted by."""
    from harness.report.terminal.show import SORT_KEYS

    return _beginning(SORT_KEYS, begun)


def query_ids(context: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Complete the id of a query of the run that the command is about."""
    from harness.archive.reader import RunReader
    from harness.archive.run_info import find_run
    from harness.core.errors import HarnessError

    run = str(next(iter(context.args), None) or context.params.get("run") or "last")  # click leaves words unread
    try:
        with RunReader(find_run(run, _parent(context))) as reader:
            return _beginning(list(reader.index.queries), begun)
    except (HarnessError, OSError):  # no such run, or one that cannot be read: there is nothing to offer
        return []


def runs_and_agents(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Complete the id of a run or the name of an agent."""
    of_both = [*run_ids(context, parameter, begun), *agent_names(context, parameter, begun)]
    return [item for item in of_both if item.type == "plain"] or of_both[-1:]


def _beginning(words: Iterable[str], begun: str) -> list[CompletionItem]:
    return [CompletionItem(word) for word in dict.fromkeys(words) if word.startswith(begun) and word.isprintable()]


def install(context: click.Context, _parameter: click.Parameter, shell: str | None) -> None:
    """Write the file that makes a shell ask for completions, let the shell read it, and end."""
    if shell is None or context.resilient_parsing:
        return
    from harness.cli.new_files import add_line, write_new
    from harness.core.user_files import home_folder, state_folder

    environ: Mapping[str, str] = context.obj or {}
    completion, home = get_completion_class(shell), home_folder(environ)
    assert completion, shell  # noqa: S101 - for the type checker: click knows the three shells
    made = completion(context.command, {}, "harness", "_HARNESS_COMPLETE")
    file = state_folder(environ) / f"completion.{shell}"
    if shell == "fish":
        file = Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "fish/completions/harness.fish"
    text = made.source_template % made.source_vars()  # not `source`, which asks the shell's version: that is bash 4.4
    write_new(file, text, force=True)
    say(f"{file}: written{'; fish reads it by itself' if shell == 'fish' else ''}")
    if shell != "fish":
        start = home / ".bashrc" if shell == "bash" else Path(environ.get("ZDOTDIR") or home) / ".zshrc"
        added = add_line(start, _STARTS[shell].format(file=shlex.quote(str(file))))
        say(f"{start}: {'reads it from now on; open a new terminal' if added else 'reads it already'}")
    context.exit()


_STARTS = {
    "bash": "[ -r {file} ] && . {file}  # completion of arena-harness",
    "zsh": "(( $+functions[compdef] )) || {{ autoload -Uz compinit && compinit }}; "
    "[ -r {file} ] && . {file}  # completion of arena-harness",
}
"""The line by which a shell reads the file when it starts."""
