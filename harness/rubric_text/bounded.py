"""A rubric's text read in a child process of bounded time, memory and output: nobody waits for, or pays for, a bomb."""

import json
import subprocess
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from subprocess import PIPE
from threading import Timer
from typing import IO, Any

import jinja2
import markupsafe
import yaml

from harness.rubric_text.front_matter import MOST_QUOTED, Fault, Faulty, Parts, take_apart
from harness.rubric_text.template import Variables, render, template_faults


@dataclass(frozen=True)
class TextReader:
    """What takes a rubric's text apart and renders its body. Each raises Faulty where the text stops it."""

    take_apart: Callable[[str], Parts]
    template_faults: Callable[[str, int], Sequence[Fault]]
    """Returns what keeps a body, which begins on that line, from being rendered whatever the values are."""
    render: Callable[[str, int, Variables], str | list[Fault]]
    """Renders a body, or returns what keeps it from being rendered."""


TRUSTED = TextReader(take_apart, template_faults, render)
"""Reads in this process, without limits: for the rubrics of the package alone."""

_SECONDS = 5
"""Of processor time, and by the clock."""
_MEMORY = 512 * 1024 * 1024
_ANSWER = 8 * 1024 * 1024
"""Bytes of one answer: 1 MB of text, whose characters may take six bytes each in JSON."""
_START = """import sys
sys.path += sys.argv.pop().splitlines()
from harness.rubric_text.child import answer_questions
answer_questions()"""


@contextmanager
def in_child() -> Generator[TextReader]:
    """Give a reader that works in a child process, which ends with the block. Raises Faulty where none can start.

    The child takes about a tenth of a second to start. The caller's thread waits for the answers, 5 s at most: in an
    event loop too, because a rubric is read once and before anything else begins.
    """
    packages = [Path(str(module.__file__)).parent for module in (jinja2, markupsafe, yaml)]
    folders = dict.fromkeys(str(package.parent) for package in (Path(__file__).parent.parent, *packages))
    # isolated, without `site`, the folders of what it imports at the path's end
    command = [sys.executable, "-I", "-S", "-B", "-c", _START, str(_SECONDS), str(_MEMORY), "\n".join(folders)]
    try:
        process = subprocess.Popen(command, stdin=PIPE, stdout=PIPE, stderr=PIPE)  # noqa: S603 - our own module
    except OSError as exc:
        raise Faulty(1, f"no process can be started to read it in ({exc.strerror})") from None
    timer = Timer(_SECONDS, process.kill)
    with process:
        try:
            timer.start()
            child = _Child(process)
            yield TextReader(child.take_apart, child.template_faults, child.render)
        finally:
            timer.cancel()
            process.kill()
            with suppress(BrokenPipeError):  # what was not read is not missed
                _pipe(process.stdin).close()


class _Child:
    """A child at work. Raises Faulty where it ends without an answer."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def take_apart(self, source: str) -> Parts:
        answer = self._ask(1, do="take_apart", source=source)
        if "faults" in answer:
            raise Faulty(*answer["faults"][0])
        members = answer["parts"]
        members["lines"] = {tuple(place): line for place, line in members["lines"]}
        return Parts(**members)

    def template_faults(self, body: str, first_line: int) -> Sequence[Fault]:
        answer = self._ask(first_line, do="template_faults", body=body, first_line=first_line)
        return [Fault(*row) for row in answer["faults"]]

    def render(self, body: str, first_line: int, variables: Variables) -> str | list[Fault]:
        values = asdict(variables)
        answer = self._ask(first_line, do="render", body=body, first_line=first_line, variables=values)
        return [Fault(*row) for row in answer["faults"]] if "faults" in answer else str(answer["text"])

    def _ask(self, line: int, **question: Any) -> dict[str, Any]:
        to_child, from_child = _pipe(self._process.stdin), _pipe(self._process.stdout)
        try:
            to_child.write(json.dumps(question, default=str).encode() + b"\n")  # a weight as it is written
            to_child.flush()
            answer = from_child.readline(_ANSWER)
        except BrokenPipeError:
            answer = b""
        if answer.endswith(b"\n"):
            return json.loads(answer)
        self._process.kill()  # it may still be writing one that is too long
        last = _pipe(self._process.stderr).read().decode("utf-8", "replace").strip().rpartition("\n")[2]
        code = self._process.wait()
        why = f"takes more than {_SECONDS} s or {_MEMORY >> 20} MB of memory (exit code {code})"
        if "MemoryError" in last:
            why = f"takes more than {_MEMORY >> 20} MB of memory"
        elif last:
            why = f"ended with {last[:MOST_QUOTED]}"
        raise Faulty(line, f"reading it {why}")


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe, "every child is opened with its pipes"  # noqa: S101 - for the type checker
    return pipe
