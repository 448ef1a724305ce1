"""Whether runs are alike enough to be one: the first difference that counts."""

from collections.abc import Iterator, Mapping
from typing import Any

from harness.archive.reader import RunReader
from harness.archive.run_info import RunInfo
from harness.core.errors import UsageError, on_a_line, quoted
from harness.core.settings import SETTINGS
from harness.core.wording import option

_MAY_DIFFER = frozenset(
    {"shard", "runs_dir", "concurrency", "judge_concurrency", "max_unjudged", "grace", "give_up", "max_cost"}
    | {"max_failures", "engine", "ray_address"}
)
"""Settings in which runs may differ: they say which part, where, how fast and how long, and decide no record."""
_BY_CONTENT = {"instructions", "rubric"}
"""Settings that name a file. What was in the file is compared, and each machine may have it elsewhere."""
_NAMES = {
    "agent": "their agent",
    "agent_file": "the file of their agent",
    "instructions": "the text of their instructions",
}


def refuse_unlike(first: RunReader, other: RunReader) -> None:
    """Raise UsageError where two runs are not of one agent, settings, judge and rubric, naming the first difference."""
    if difference := next(_differences(first, other), None):
        what, ours, theirs = difference
        raise UsageError(
            f"runs {on_a_line(first.id)} and {on_a_line(other.id)} differ in {what}: {_shown(ours)} and "
            f"{_shown(theirs)}; only runs of one agent, judge, rubric and settings can be merged"
        )


def counting(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a ranking that decide something of it."""
    return {name: value for name, value in settings.items() if name not in _MAY_DIFFER | _BY_CONTENT}


def _differences(first: RunReader, other: RunReader) -> Iterator[tuple[str, Any, Any]]:
    a, b = first.info, other.info
    if a.offline != b.offline or a.agent_offline != b.agent_offline:
        yield "what they ran on", _ran_on(a), _ran_on(b)
    for name, what in _NAMES.items():
        yield from _unequal(what, a, b, name)
    yield from _in_settings(first, other)
    for name in ("judge", "endpoint"):
        yield from _in_parts(name, getattr(a, name) or {}, getattr(b, name) or {})
    for name in ("agent_api", "rubric", "rendering"):
        yield from _unequal(f"`{name}` of run.json", a, b, name)


def _ran_on(info: RunInfo) -> str:
    if info.offline == info.agent_offline:
        return "embedded models" if info.offline else "endpoints"
    return "the embedded judge"


def _unequal(what: str, a: object, b: object, name: str) -> Iterator[tuple[str, Any, Any]]:
    if getattr(a, name) != getattr(b, name):
        yield what, getattr(a, name), getattr(b, name)


def _in_settings(first: RunReader, other: RunReader) -> Iterator[tuple[str, Any, Any]]:
    a, b = first.settings, other.settings
    imported = not first.info.judge and not other.info.judge  # `n` is then the size of the largest group
    for name in SETTINGS:
        if name not in _MAY_DIFFER | _BY_CONTENT and not (imported and name == "n"):
            yield from _unequal(option(name).removesuffix("="), a, b, name)


def _in_parts(what: str, a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    for name in [*a, *(name for name in b if name not in a)]:
        if a.get(name) != b.get(name):
            yield f"`{what}.{name}` of run.json", a.get(name), b.get(name)


def _shown(value: Any) -> str:
    return "none" if value is None else quoted(value)
