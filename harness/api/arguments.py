"""What the arguments of the API's functions must be: one rule a name, whichever function takes it."""

import inspect
import random
from collections.abc import Callable, Mapping
from functools import cache, partial
from numbers import Integral, Real
from typing import Any

from harness.archive import Store
from harness.core.errors import UsageError, quoted
from harness.core.progress import Progress
from harness.core.wording import joined, option
from harness.judging import Judge

Requirement = Callable[[Any], str | None]
"""Returns what to give instead; None for what can be used."""


def check_arguments(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Raise UsageError for an argument of the wrong kind. A call that Python itself refuses is left to Python."""
    try:
        arguments = _signature(function).bind(*args, **kwargs).arguments
    except TypeError:
        return
    for name, value in arguments.items():
        rule = _RULES.get(name)
        if rule and (instead := rule(value)):
            raise UsageError(f"{joined(option(name), quoted(value))}: {instead}")
    _check_one_judge(arguments)


def _check_one_judge(arguments: Mapping[str, Any]) -> None:
    judge, model = arguments.get("judge"), arguments.get("settings", {}).get("judge_model")
    if judge is not None and model is not None:
        raise UsageError(
            f"{joined(option('judge'), quoted(judge))} with {option('judge_model', model)}: both name the judge; "
            "leave out one of the two"
        )


@cache
def _signature(function: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(function)


def _of_kind(*kinds: type, instead: str, optional: bool = False) -> Requirement:
    """Return the rule that a value is of one of `kinds`; True and False are numbers only where bool is named."""

    def rule(value: Any) -> str | None:
        if value is None:
            return None if optional else instead
        fits = bool in kinds if isinstance(value, bool) else isinstance(value, kinds)
        return None if fits else instead

    return rule


def _like(value: Any, *, protocol: type, article: str) -> str | None:
    """The rule that a value is None or has what a protocol names; a class has that, but is no object of the class."""
    if value is None:
        return None
    if isinstance(value, type):
        return f"a class; give an object of the class, such as {value.__name__}()"
    lacking = sorted(name for name in _members(protocol) if not hasattr(value, name))
    return f"give {article} harness.{protocol.__name__}; there is no {', '.join(lacking)}" if lacking else None


def _members(protocol: type) -> list[str]:
    return [name for name in vars(protocol) if name == "__call__" or not name.startswith("_")]


def _judge(value: Any) -> str | None:
    """The rule that a judge is a model's name, or an object of the caller's that can judge."""
    if isinstance(value, str):
        return None if value.strip() else "give a model's name"
    if isinstance(value, list | tuple):
        return f"give one model's name; {option('judge_model')} takes the names of a jury"
    if wrong := _like(value, protocol=Judge, article="a model's name, or an object with the methods of"):
        return wrong
    texts = ("identity", "rubric_label") if value is not None else ()
    unlike = [name for name in texts if not isinstance(getattr(value, name), str)]
    return f"its {' and '.join(unlike)} must be texts" if unlike else None


_YES_NO = _of_kind(bool, instead="give True or False")
_WHOLE = _of_kind(Integral, instead="give a whole number")
_WHOLE_OR_NONE = _of_kind(Integral, instead="give a whole number", optional=True)
_SEVERAL = _of_kind(list, tuple, instead="give a list", optional=True)
_RULES: Mapping[str, Requirement] = {
    "n": _WHOLE,
    "rollout": _WHOLE_OR_NONE,
    "rendering": _WHOLE,
    "budget": _WHOLE,
    "rng": _of_kind(Integral, random.Random, instead="give a whole number or a random.Random"),
    "deadline": _of_kind(Real, instead="give a number of seconds above 0", optional=True),
    "judge": _judge,
    "store": partial(_like, protocol=Store, article="an object with the methods of"),
    "progress": partial(_like, protocol=Progress, article="an object with the methods of"),
    "clock": lambda value: None if callable(value) else "give a function that returns the time",
    "tools": _SEVERAL,
    "reuse": _of_kind(list, tuple, instead="give a list of runs"),
    "rubric": _of_kind(str, instead="give the rubric's text", optional=True),
    **dict.fromkeys(("debug", "swallow_exceptions", "first_is_anchor", "free", "repair", "live_tools"), _YES_NO),
    **dict.fromkeys(("retry_failed", "accept_changed_agent", "trust_archive"), _YES_NO),
}
