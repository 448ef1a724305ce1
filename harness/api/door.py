"""The way into the API: arguments are checked, messages name them, and there is one error in place of a group."""

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from harness.api.arguments import check_arguments
from harness.core.errors import HarnessError, first_error
from harness.core.wording import as_spoken, from_python

P = ParamSpec("P")
T = TypeVar("T")


def door(function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Make a function of the pipeline's a function of the API: arguments are checked before anything is done."""

    @wraps(function)
    async def entered(*args: P.args, **kwargs: P.kwargs) -> T:
        with from_python():
            check_arguments(function, args, kwargs)
            try:
                return await function(*args, **kwargs)
            except HarnessError as error:
                _word(error)
                raise
            except ExceptionGroup as errors:
                if errors.split(HarnessError)[1]:
                    raise
                error = first_error(errors)
                _word(error)
                raise error from error.__cause__

    return entered


def _word(error: BaseException) -> None:
    """Let the message of an error name arguments: it may quote what the archive keeps."""
    error.args = tuple(as_spoken(each) if isinstance(each, str) else each for each in error.args)
