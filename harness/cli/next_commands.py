"""What to type next."""

import shlex
from collections.abc import Sequence

from harness.archive.missing import Remaining
from harness.archive.rankings import RankingFile
from harness.archive.reader import RunReader
from harness.cli.output import say
from harness.cli.program import program
from harness.core.addresses import with_placeholder


def next_commands(
    reader: RunReader, ranking: RankingFile, left: Remaining, best: tuple[str, int] | None, typed: Sequence[str]
) -> None:
    """Print what to type next. After a self-test: the command that was typed, with a key and with a local server."""
    command = program()
    run = shlex.quote(reader.typed_name)
    of_query = f" --query {shlex.quote(best[0])}" if best and left.queries > 1 else ""
    lines = [
        f"{command} show {run}" + (f" --rollout {best[1]}{of_query}" if best else ""),
        f"{command} rescore {run} {'--topology arena' if _unjudged(ranking) else '--judge-model MODEL'}",
    ]
    if (again := _again(reader, left)) is not None:
        lines.append(f"{command} resume {run}{again}")
    if reader.info.agent_offline and typed[:1] == ["run"]:
        typed_again = f"{command} {shlex.join(_without_password(word) for word in typed if word != '--offline')}"
        lines = [
            f"with a key:           OPENAI_API_KEY=sk-... {typed_again}",
            f"with a local server:  {typed_again} --base-url http://localhost:8000/v1 --model NAME",
        ]
    say("\n" + "\n".join(f"next: {line}" for line in lines))


def _again(reader: RunReader, left: Remaining) -> str | None:
    """Return the options with which `resume` has something to do, "" for none; None where all is done."""
    if left.missing:
        return ""
    return " --retry-failed" if left.failed and reader.info.judge else None  # what was imported nobody can run


def _without_password(word: str) -> str:
    option, _, url = word.partition("=") if word.startswith("--") else ("", "", word)
    is_address = url.startswith(("http://", "https://")) and "@" in url
    return f"{option}{'=' if option else ''}{with_placeholder(url)}" if is_address else word


def _unjudged(ranking: RankingFile) -> bool:
    return ranking.head.settings.get("topology") == "none"
