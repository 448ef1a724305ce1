"""What the arguments of the API's functions must be: one rule a name, whichever function takes it."""

import random
from collections.abc import Callable, Coroutine, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast, get_args

from harness.archive.store import Store
from harness.core.progress import Progress
from harness.core.python_door import ArgumentRules, awaited_door, like, of_kind, plain_door
from harness.core.wording import option
from harness.formats.trajectory_files import Format
from harness.judging.judges import Judge

P = ParamSpec("P")
T = TypeVar("T")


def door(function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Make a function of the pipeline's a function of the API."""
    return awaited_door(function, _RULES)


def door_at_once(function: Callable[P, T]) -> Callable[P, T]:
    """Make a function that is not awaited one of the API."""
    return plain_door(function, _RULES)


_LIKE_JUDGE = like(Judge, "a model's name, or an object with the methods of")


def _judge(value: Any) -> str | None:
    if isinstance(value, str):
        return None if value.strip() else "give a model's name"
    if isinstance(value, list | tuple):
        return f"give one model's name; {option('judge_model')} takes the names of a jury"
    if wrong := _LIKE_JUDGE(value):
        return wrong
    texts = ("identity", "rubric_label") if value is not None else ()
    unlike = [name for name in texts if not isinstance(getattr(value, name), str)]
    return f"its {' and '.join(unlike)} must be texts" if unlike else None


def _run(value: Any) -> str | None:
    named = value is None or isinstance(value, str | Path) or isinstance(getattr(value, "path", None), Path)
    return None if named else "give a harness.Run, a run's folder or id, or 'last'"


def _files(value: Any) -> str | None:
    paths = cast("Sequence[object]", value) if isinstance(value, list | tuple) else [value]
    return None if all(isinstance(path, str | Path) for path in paths) else "give a path, or a list of paths"


def _format(value: Any) -> str | None:
    words = get_args(Format)
    return None if value is None or value in words else f"give one of {', '.join(map(repr, words))}"


_YES_NO = of_kind(bool, instead="give True or False")
_WHOLE = of_kind(Integral, instead="give a whole number")
_WHOLE_OR_NONE = of_kind(Integral, instead="give a whole number", optional=True)
_SEVERAL = of_kind(list, tuple, instead="give a list", optional=True)
_RULES: ArgumentRules = {
    "n": _WHOLE,
    "rollout": _WHOLE_OR_NONE,
    "budget": _WHOLE,
    "rng": of_kind(Integral, random.Random, instead="give a whole number or a random.Random"),
    "deadline": of_kind(Real, instead="give a number of seconds above 0", optional=True),
    "judge": _judge,
    "store": like(Store, "an object with the methods of"),
    "progress": like(Progress, "an object with the methods of"),
    "clock": lambda value: None if callable(value) else "give a function that returns the time",
    "tools": _SEVERAL,
    "reuse": of_kind(list, tuple, instead="give a list of runs"),
    "pairs": _WHOLE,
    "task": of_kind(str, instead="give the task's text", optional=True),
    "cluster": of_kind(str, instead="give a key of the queries' metadata", optional=True),
    "runs_dir": of_kind(str, Path, instead="give a folder", optional=True),
    "run": _run,
    "runs": of_kind(list, tuple, instead="give a list of runs"),
    "output": of_kind(str, Path, instead="give a run's name, or a path", optional=True),
    "files": _files,
    "format": _format,
    "name": of_kind(str, instead="give a name"),
    "rubric": of_kind(str, instead="give the rubric's text", optional=True),
    **dict.fromkeys(("debug", "swallow_exceptions", "first_is_anchor", "free", "repair", "live_tools"), _YES_NO),
    **dict.fromkeys(("retry_failed", "accept_changed_agent", "trust_archive", "allow_offline"), _YES_NO),
}
