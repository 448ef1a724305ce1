"""The way in for Python callers: arguments are checked, messages name them, and help() lists the settings."""

import inspect
import textwrap
from collections.abc import Callable, Coroutine, Generator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import Any, ParamSpec, Protocol, TypeVar, get_args

from harness.core.errors import HarnessError, UsageError, as_spoken, first_error, from_python, joined, option, quoted
from harness.core.settings import SETTINGS

P = ParamSpec("P")
T = TypeVar("T")

Requirement = Callable[[Any], str | None]
"""Returns what to give instead; None for what can be used."""
ArgumentRules = Mapping[str, Requirement]
"""One rule a name of an argument."""


def awaited_door(
    function: Callable[P, Coroutine[Any, Any, T]], rules: ArgumentRules
) -> Callable[P, Coroutine[Any, Any, T]]:
    """Return a coroutine function for Python callers: arguments are checked before anything is done."""

    @wraps(function)
    async def entered(*args: P.args, **kwargs: P.kwargs) -> T:
        with _at_the_door(function, rules, args, kwargs):
            return await function(*args, **kwargs)

    entered.__doc__ = _with_settings(function)
    return entered


def plain_door(function: Callable[P, T], rules: ArgumentRules) -> Callable[P, T]:
    """Return a plain function for Python callers: arguments are checked before anything is done."""

    @wraps(function)
    def entered(*args: P.args, **kwargs: P.kwargs) -> T:
        with _at_the_door(function, rules, args, kwargs):
            return function(*args, **kwargs)

    return entered


def of_kind(*kinds: type, instead: str, optional: bool = False) -> Requirement:
    """Return the rule that a value is of one of `kinds`; True and False are numbers only where bool is named."""

    def rule(value: Any) -> str | None:
        if value is None:
            return None if optional else instead
        fits = bool in kinds if isinstance(value, bool) else isinstance(value, kinds)
        return None if fits else instead

    return rule


def like(protocol: type, article: str) -> Requirement:
    """Return the rule that a value is None or has what a protocol names; a class has that, but is no object of it."""

    def rule(value: Any) -> str | None:
        if value is None:
            return None
        if isinstance(value, type):
            return f"a class; give an object of the class, such as {value.__name__}()"
        bases = [base for base in protocol.__mro__ if issubclass(base, Protocol) and base is not Protocol]
        members = {name for base in bases for name in vars(base) if name == "__call__" or not name.startswith("_")}
        lacking = sorted(name for name in members if not hasattr(value, name))
        return f"give {article} harness.{protocol.__name__}; there is no {', '.join(lacking)}" if lacking else None

    return rule


@contextmanager
def _at_the_door(
    function: Callable[..., Any], rules: ArgumentRules, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Generator[None]:
    """Check the arguments, word what is raised for Python, and let one error stand for a group of ours."""
    with from_python():
        _check_arguments(function, rules, args, kwargs)
        try:
            yield
        except HarnessError as error:
            _word(error)
            raise
        except ExceptionGroup as errors:
            if errors.split(HarnessError)[1]:
                raise
            error = first_error(errors)
            _word(error)
            raise error from error.__cause__


def _check_arguments(
    function: Callable[..., Any], rules: ArgumentRules, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> None:
    """Raise UsageError for an argument of the wrong kind. A call that Python itself refuses is left to Python."""
    try:
        arguments = inspect.signature(function).bind(*args, **kwargs).arguments
    except TypeError:
        return
    for name, value in arguments.items():
        rule = rules.get(name)
        if rule and (instead := rule(value)):
            raise UsageError(f"{joined(option(name), quoted(value))}: {instead}")
    judge, model = arguments.get("judge"), arguments.get("settings", {}).get("judge_model")
    if judge is not None and model is not None:
        raise UsageError(
            f"{joined(option('judge'), quoted(judge))} with {option('judge_model', model)}: both name the judge; "
            "leave out one of the two"
        )


def _word(error: BaseException) -> None:
    """Let the message of an error name arguments: it may quote what the archive keeps."""
    error.args = tuple(as_spoken(each) if isinstance(each, str) else each for each in error.args)


def _with_settings(function: Callable[..., Any]) -> str:
    """Return a function's docstring, and what each of its settings is, for help()."""
    doc = inspect.getdoc(function) or ""
    (settings,) = get_args(function.__annotations__.get("settings")) or (None,)
    if settings is None:
        return doc
    names = sorted(settings.__annotations__, key=[*SETTINGS, *settings.__annotations__].index)
    texts = [f"{name}: {SETTINGS[name].in_python}" if name in SETTINGS else name for name in names]
    lines = [
        textwrap.fill(t, 116, initial_indent=" " * 4, subsequent_indent=" " * 8, break_on_hyphens=False) for t in texts
    ]
    return "\n".join([doc, "", "Settings:", *lines])
