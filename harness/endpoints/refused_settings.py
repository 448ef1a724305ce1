"""The settings that a call sends. What a model refuses is found out by one call, and left out from then on."""

import dataclasses
import re
from collections.abc import Awaitable, Callable, Collection, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import anyio
import openai
from agents import ModelSettings
from openai.types.shared import Reasoning

from harness.core.errors import Refused, option, switch
from harness.endpoints.breaker import EndpointDown
from harness.endpoints.retries import NO_LIMIT, TimeLimit, error_text

_Reply = TypeVar("_Reply")
OPENS_AFTER_S = 5.0
"""For so long the first call goes alone."""


def other_ways() -> str:
    """Return where people find what makes samples differ without a temperature."""
    return f"and {option('vary')} names other ways in which samples may differ"


REFUSABLE = ("temperature", "top_p", "seed", "stream_options")
_EFFORT = ("reasoning_effort", "reasoning.effort")
"""What the reasoning effort is called on Chat, and on Responses."""
_LIMITED = ("temperature", "top_p")


Bounds = tuple[float, float]
"""The least and the most that a model takes of a setting."""
_NUMBER = r"(-?\d+(?:\.\d+)?)"
_BOTH_LIMITS = re.compile(rf"(?:between|range|from|in)\W*{_NUMBER}\s*(?:and|to|\.\.|,|-)\s*{_NUMBER}")
_MOST = re.compile(rf"(?:<=|at most|no more than|less than or equal to|maximum (?:value )?(?:of|is))\s*{_NUMBER}")


def values_set(settings: ModelSettings) -> dict[str, Any]:
    """Return which of the refusable settings a call sends, in a fixed order, with their values."""
    values = settings.temperature, settings.top_p, seed_in(settings), settings.include_usage
    return {name: value for name, value in zip(REFUSABLE, values, strict=True) if value is not None}


def limits_in(message: str) -> Bounds | None:
    """Return the range that a server's message names, as in `temperature must be between 0 and 1`; else None."""
    if found := _BOTH_LIMITS.search(message.lower()):
        least, most = float(found[1]), float(found[2])
        return (least, most) if least < most else None
    return (0.0, float(found[1])) if (found := _MOST.search(message.lower())) else None


def within(settings: ModelSettings, limits: Mapping[str, Bounds]) -> ModelSettings:
    """Return settings whose temperature and top_p lie within the limits."""
    changes: dict[str, Any] = {}
    for name, bounds in limits.items():
        value: float | None = getattr(settings, name)
        if value is not None and (nearest := _nearest(value, bounds)) != value:
            changes[name] = nearest
    return dataclasses.replace(settings, **changes) if changes else settings


def _nearest(value: float, limits: Bounds) -> float:
    least, most = limits
    return min(max(value, least), most)


def without(settings: ModelSettings, names: Collection[str]) -> ModelSettings:
    """Return settings without the refusable ones among `names`."""
    fields = {"temperature": "temperature", "top_p": "top_p", "stream_options": "include_usage"}
    changes: dict[str, Any] = {field: None for name, field in fields.items() if name in names}
    if "seed" in names and seed_in(settings) is not None:
        changes["extra_body"] = {k: v for k, v in extra_body(settings).items() if k != "seed"} or None
    return dataclasses.replace(settings, **changes) if changes else settings


def seed_in(settings: ModelSettings) -> int | None:
    """Return the seed that settings carry in the request's extra body."""
    return extra_body(settings).get("seed")


def sampling_in(settings: ModelSettings) -> tuple[float | None, float | None]:
    """Return the temperature and top_p of a request; those in its extra body win, as they do on the wire."""
    body = {name: value for name, value in extra_body(settings).items() if isinstance(value, int | float)}
    return body.get("temperature", settings.temperature), body.get("top_p", settings.top_p)


def with_seed(settings: ModelSettings, seed: int | None) -> ModelSettings:
    """Return settings that carry a seed beside whatever else the agent puts into its requests' extra body."""
    return settings if seed is None else with_changes(settings, extra_body={**extra_body(settings), "seed": seed})


def with_changes(settings: ModelSettings, **changes: Any) -> ModelSettings:
    """Return settings of which some are others."""
    # Not dataclasses.replace(), which validates all the settings anew, nor copy(), which goes the way of pickling.
    changed = object.__new__(type(settings))
    changed.__dict__.update(settings.__dict__, **changes)
    return changed


def leaves_reasoning(settings: ModelSettings) -> bool:
    """Return whether settings hold an empty `Reasoning()`, by which an agent leaves its reasoning to the harness.

    Then a model that takes a temperature only without reasoning is asked with effort `none`.
    """
    return settings.reasoning is not None and not settings.reasoning.model_fields_set


def extra_body(settings: ModelSettings) -> dict[str, Any]:
    """Return what settings put into the body of each request beside the SDK's own members."""
    return cast("dict[str, Any]", settings.extra_body or {})


@dataclass(frozen=True)
class SettingLesson:
    """A setting that a model refuses: calls of other processes leave it out, too. `reasoning`: beside a temperature."""

    model: str | None
    setting: str
    message: str
    """The server's words."""
    limits: Bounds | None = None
    """What the model takes of it, where it refuses only values beyond."""


class RefusedSettings:
    """Which settings each model has refused at one host, with the server's words, and which it takes within limits."""

    def __init__(self, note: Callable[[str], None] = lambda _: None, *, strict: bool = False) -> None:
        """Call `note` once for each refused setting; with `strict` a refused temperature is an error instead."""
        self._note, self._strict = note, strict
        self._by_model: dict[str | None, dict[str, str]] = {}
        self._limits: dict[str | None, dict[str, Bounds]] = {}
        self.share: Callable[[SettingLesson], None] = lambda _: None
        """Called with each refusal that a call of this process met, to pass it on to other processes."""

    def of(self, model: str | None) -> Mapping[str, str]:
        """Return the settings that `model` has refused, each with the server's message."""
        return self._by_model.get(model, {})

    def allowed(self, model: str | None, settings: ModelSettings) -> ModelSettings:
        """Return settings within the limits of `model`, without what it refuses, and without reasoning it refuses."""
        refused = self.of(model)
        if leaves_reasoning(settings):
            off = Reasoning(effort="none") if "reasoning" in refused and "temperature" not in refused else None
            settings = with_changes(settings, reasoning=off)
        return without(within(settings, self._limits.get(model, {})), refused)

    def learn_from_call(
        self, model: str | None, error: openai.OpenAIError, asked: ModelSettings, allowed: ModelSettings
    ) -> bool:
        """Learn from the error of a call that `asked` for settings and went out with those that were `allowed`."""
        reasons = allowed.reasoning is None if leaves_reasoning(asked) else None
        return self.learn(model, error, values_set(allowed), reasons=reasons)

    def learn(
        self, model: str | None, error: openai.OpenAIError, sent: Mapping[str, Any], *, reasons: bool | None = None
    ) -> bool:
        """Return whether an error refuses one of the settings `sent`, or its value, and remember it.

        `reasons` tells of a call that leaves its reasoning to the harness whether the model might reason. Raises
        Refused when strict.
        """
        name = refused_setting(error, sent)
        if reasons is False and name is None and "temperature" in sent and refused_setting(error, _EFFORT):
            name = "temperature"  # for whose sake the effort was sent
        if name is None or not isinstance(error, openai.APIError):
            return False
        limits = self._limits.get(model, {}).get(name) or limits_in(error_text(error)) if name in _LIMITED else None
        if limits and sent[name] != _nearest(sent[name], limits):  # else the limits do not help
            self._limit(SettingLesson(model, name, error_text(error), limits), limits, sent[name])
            return True
        if reasons and name == "temperature" and name not in self.of(model):
            if "reasoning" not in self.of(model):
                words = f"model {model!r} takes no temperature beside reasoning: trying it without reasoning"
                self._pass_on(SettingLesson(model, "reasoning", error_text(error)), words)
            return True
        if self._strict and name == "temperature":
            why = f"{switch('strict_temperature')} is on ({error_text(error)})"
            advice = f"leave that off to go on without, or name another {option('model')}"
            raise Refused(f"model {model!r} refuses the setting temperature, and {why}; {advice}")
        if name in self.of(model):
            return True
        greedy = f"; its anchor is not greedy, {other_ways()}" if name == "temperature" else ""
        words = f"model {model!r} refuses the setting {name}: going on without it{greedy}"
        self._pass_on(SettingLesson(model, name, error_text(error)), words)
        return True

    def _limit(self, lesson: SettingLesson, limits: Bounds, sent: float) -> None:
        takes = f"model {lesson.model!r} takes {lesson.setting} from {limits[0]:g} to {limits[1]:g}"
        if self._strict and lesson.setting == "temperature":
            why = f"{switch('strict_temperature')} is on"
            raise Refused(f"{takes}, not {sent:g}, and {why}; name {option(lesson.setting)} within")
        if lesson.setting not in self._limits.get(lesson.model, {}):
            self._pass_on(lesson, f"{takes}: calls that ask for {sent:g} go out with {_nearest(sent, limits):g}")

    def _pass_on(self, lesson: SettingLesson, words: str) -> None:
        self.note(lesson)
        self.share(lesson)
        self._note(words)

    def note(self, lesson: SettingLesson) -> None:
        """Go by what a call of another process was refused; it is passed on to nobody."""
        if lesson.limits:
            self._limits.setdefault(lesson.model, {})[lesson.setting] = lesson.limits
            return
        self._by_model.setdefault(lesson.model, {}).setdefault(lesson.setting, lesson.message)


def refused_setting(error: BaseException | None, sent: Collection[str]) -> str | None:
    """Return which of the settings `sent` a 400 or 422 objects to; None if the error is about something else.

    OpenAI names the setting in `param`; other servers leave `param` empty and name the setting in the message.
    """
    if not isinstance(error, openai.BadRequestError | openai.UnprocessableEntityError):
        return None
    if error.param:
        return error.param if error.param in sent else None
    message = error_text(error).lower()
    return next((name for name in sent if name in message), None)


class FirstAlone:
    """Lets the first call of each kind go alone, so that what it is refused is learnt before the others go.

    A call that was refused hands its place to the next. None of that is for long, and a call that ends without any
    reply teaches nothing: from then on calls of its kind go together.
    """

    def __init__(self, alone_s: float = OPENS_AFTER_S) -> None:
        """No kind of call was answered yet. First calls go alone for `alone_s`, and OPENS_AFTER_S, at most."""
        self._alone_s = min(alone_s, OPENS_AFTER_S)
        self.answered: set[Hashable] = set()
        self._opens_at: dict[Hashable, float] = {}
        self._under_way: dict[Hashable, anyio.Event] = {}

    async def send(self, kind: Hashable, call: Callable[[], Awaitable[_Reply]], clock: TimeLimit = NO_LIMIT) -> _Reply:
        """Make a call: alone while none of its `kind` was answered. `clock` stands still meanwhile."""
        opens_at = self._opens_at.setdefault(kind, anyio.current_time() + self._alone_s)
        with clock.stopped(), anyio.move_on_after(opens_at - anyio.current_time()):
            while kind not in self.answered and kind in self._under_way and anyio.current_time() < self._opens_at[kind]:
                await self._under_way[kind].wait()
        if kind in self.answered:
            return await call()
        ended = anyio.Event()
        self._under_way.setdefault(kind, ended)
        try:
            reply = await call()
            self.answered.add(kind)
        except BaseException as exc:
            no_reply = any(isinstance(c, openai.APIConnectionError | EndpointDown) for c in (exc, exc.__cause__))
            if no_reply or not isinstance(exc, Exception):  # it was cancelled
                self._opens_at[kind] = anyio.current_time()
            raise
        finally:
            if self._under_way.get(kind) is ended:
                del self._under_way[kind]
            ended.set()
        return reply
