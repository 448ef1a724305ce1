"""Where settings come from: flags, then `HARNESS_*` in the environment, then `--config` YAML, then the defaults."""

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, cast

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, create_model

from harness.core import errors
from harness.core.prices import added_prices
from harness.core.setting import Setting
from harness.core.settings import ADDRESSES, JUDGE_KEY, SETTINGS, Settings
from harness.core.unicode import valid_unicode

_MOST_COMPLAINTS = 3
_LEAST_INTEGER, _MOST_INTEGER = -(2**63), 2**63 - 1
_MOST_FLOAT = 1e9
"""Of seconds and dollars: more than anybody means, and less than clocks overflow at."""
_FOR_A_BUDGET = {"topology": "cyclic"}
CYCLIC_FROM = 6
"""Rollouts from which on `auto` takes `cyclic`: it ranks better than `arena` for as many calls."""
_FOR_FLEX = {"judge_timeout": 1800.0}
"""A reply of the flex tier may take a quarter of an hour, and may then be asked for again."""


def environment() -> Mapping[str, str]:
    """Return the process's environment, for the Python API. A command reads it in harness.cli.app, without pydantic."""
    return dict(os.environ)


def merge_sources(flags: Mapping[str, Any], environ: Mapping[str, str], config: Path | None) -> dict[str, Any]:
    """Return what the user set, flags over environment over YAML; a flag of None, () or [] counts as not given.

    Raises UsageError for a config file that is missing, broken or not a mapping, and, naming the source, for a value of
    the file or of the environment that holds and cannot be used.
    """
    named = {name: value for name, value in flags.items() if value not in (None, (), [])}
    found = {name: environ.get(f"HARNESS_{name.upper()}") for name in SETTINGS}
    of_environment = {n: value if SETTINGS[n].takes_one else [value] for n, value in found.items() if value is not None}
    of_file = dict[str, Any]()
    if config is not None:
        from harness.core.config_file import read_config  # noqa: PLC0415 - PyYAML takes as long to import as `ls` to run

        of_file = read_config(config)
        check_names(of_file, SETTINGS, f"--config {errors.on_a_line(str(config))}: ")
    _check_source(of_environment, named, lambda name: f"HARNESS_{name.upper()}")
    _check_source(of_file, of_environment | named, lambda name: f"--config {errors.on_a_line(str(config))}: {name}")
    return of_file | of_environment | named


def _check_source(values: Mapping[str, Any], over: Collection[str], called: Callable[[str], str]) -> None:
    """Check the values that nothing is set `over`; `called` is what a message calls a setting of this source."""
    holding = {name: value for name, value in values.items() if name in SETTINGS and name not in over}
    if holding:
        _checked(holding, called)


def misspelt(environ: Mapping[str, str]) -> list[str]:
    """Return what in the environment is most likely meant for a setting, each with the true name, in words.

    Not an error: another tool's variables may begin with HARNESS_ as well.
    """
    names = {f"HARNESS_{name.upper()}" for name in SETTINGS} | {JUDGE_KEY}
    strange = sorted(n for n in environ if n.startswith("HARNESS_") and n not in names)
    return [f"{n} is no setting{meant}" for n in strange if (meant := errors.did_you_mean(n, names, 0.9))]


def load(values: Mapping[str, Any]) -> Settings:
    """Check `values` and fill in the defaults. Raises UsageError, one line, naming setting, value and bounds.

    `auto` becomes what it stands for. A budget without a topology picks `cyclic`, the best there is for a
    budget. The flex tier gives a verdict more time.
    """
    check_names(values, SETTINGS)
    picked: dict[str, Any] = _FOR_A_BUDGET if values.get("budget") is not None else {}
    if values.get("judge_tier", "default") != "default":
        picked = picked | _FOR_FLEX
    settings = Settings(**dict(_checked({**picked, **values})))
    if settings.topology == "auto":
        settings = settled(settings)
    _check_budget(settings)
    _check_ruler(settings)
    priced = [word.rpartition("=")[0] for word in settings.prices]
    if twice := next((model for at, model in enumerate(priced) if model in priced[:at]), None):
        raise errors.UsageError(f"{errors.before_colon('prices')}: {errors.quoted(twice)} has two prices")
    if settings.judge_batch and settings.judge_tier != "default":
        raise errors.UsageError(
            f"{errors.option('judge_tier', settings.judge_tier)} with a batch: leave out one of the two"
        )
    return settings


def settled(settings: Settings) -> Settings:
    """Return settings with the design that `auto` stands for.

    From CYCLIC_FROM rollouts on that is `cyclic` for as many calls as `arena` makes at most, so that a ceiling on
    costs that pays for the one pays for the other; with a budget `cyclic`, too.
    """
    if settings.budget is not None:
        return replace(settings, topology="cyclic")
    if settings.n < CYCLIC_FROM:
        return replace(settings, topology="arena")
    matches = 2 * settings.n - 3
    return replace(settings, topology="cyclic", budget=matches * (2 if settings.order in (None, "both") else 1))


def check_names(values: Iterable[str], names: Collection[str], where: str = "") -> None:
    """Raise UsageError for a name that is none of `names`; `where` it stands begins the message."""
    for name in values:
        if name not in names:
            raise errors.UsageError(f"{where}no setting {errors.quoted(name)}{errors.did_you_mean(name, names)}")


def check_known(values: Mapping[str, Any]) -> None:
    """Check those of `values` that are settings of this harness, each for itself. Raises UsageError as `load` does."""
    _checked({name: value for name, value in values.items() if name in SETTINGS})


def _checked(given: Mapping[str, Any], called: Callable[[str], str] = errors.option) -> BaseModel:
    in_words = {name: SETTINGS[name].words for name in given}
    values = {name: words(given[name]) if words else given[name] for name, words in in_words.items()}
    for name, value in values.items():
        several = cast("Sequence[Any]", value) if isinstance(value, list | tuple) else (value,)
        for text in (str(each) for each in several if isinstance(each, str | Path)):
            if "\0" in text or valid_unicode(text) != text:  # no run can keep it, and no file system takes it as a name
                shown = "" if name in ADDRESSES else errors.quoted(text)
                raise errors.UsageError(f"{errors.joined(called(name), shown)}: holds NUL, or a byte that is not UTF-8")
    try:
        return _checker()(**values)
    except ValidationError as exc:
        raise errors.UsageError(_complaints(exc, called)) from None


def changed(before: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return an archived run's settings under changes.

    A budget given now picks the design anew; another topology given now drops a budget, and what that had picked;
    another tier given now picks its time limit.
    Prices given now are added to those of before.
    """
    kept = dict(before)
    if changes.get("judge_tier") is not None and changes["judge_tier"] != kept.get("judge_tier", "default"):
        kept = {k: v for k, v in kept.items() if k not in _FOR_FLEX}
    if changes.get("prices"):
        changes = {**changes, "prices": added_prices(before.get("prices"), changes["prices"])}
    now_budget = changes.get("budget") is not None and "topology" not in changes
    unlike = changes.get("topology") not in (None, "cyclic")  # no set: a config file may hold a list there
    now_other = unlike and "budget" not in changes
    if now_budget or (now_other and kept.get("budget") is not None):
        kept = {k: v for k, v in kept.items() if k not in {"budget", "topology", "estimator"}}
    return kept | dict(changes)


@cache
def _checker() -> type[BaseModel]:
    """Return a pydantic model that checks and converts values as the settings' declarations say."""
    checked: dict[str, Any] = {name: _checked_field(setting) for name, setting in SETTINGS.items()}
    return create_model("CheckedSettings", __config__=ConfigDict(extra="forbid", allow_inf_nan=False), **checked)


def _checked_field(setting: Setting) -> tuple[Any, Any]:
    least, most, type_ = setting.at_least, setting.at_most, setting.type
    if setting.types == (int,):  # what has no bound of its own fits 64 bits: a run must be able to be read back
        least, most = _LEAST_INTEGER if least is None else least, _MOST_INTEGER if most is None else most
    elif setting.types == (float,) and most is None:
        most = _MOST_FLOAT
    if setting.repeatable and setting.takes_one:
        type_ = Annotated[type_, BeforeValidator(_unwrapped)]
    elif setting.check and setting.repeatable:
        type_ = tuple[Annotated[str, AfterValidator(setting.check)], ...]
    elif setting.check:
        type_ = Annotated[type_, AfterValidator(setting.check)]
    return type_, Field(default=setting.default, ge=least, gt=setting.above, le=most)


def _unwrapped(value: Any) -> Any:
    """Take a flag that may be repeated, given once, for its only value."""
    if not isinstance(value, list | tuple):
        return value
    several = tuple(cast("Sequence[Any]", value))
    return several if len(several) > 1 else several[0] if several else None


def _check_budget(settings: Settings) -> None:
    if settings.budget is None:
        return
    if settings.topology != "cyclic":
        raise errors.UsageError(
            f"{errors.option('budget', settings.budget)} with {errors.option('topology', settings.topology)}: a budget "
            "is spent by `cyclic`; leave out one of the two"
        )
    least = (settings.n - 1) * (2 if settings.order == "both" else 1)
    if settings.budget < least:
        raise errors.UsageError(
            f"{errors.option('budget', settings.budget)}: {settings.n} rollouts need at least {least} judge "
            "calls to be compared with each other, directly or through others"
        )


def _check_ruler(settings: Settings) -> None:
    """Refuse what a listwise judge cannot keep to: that little or nothing be judged, or that remarks be cited."""
    if settings.judge != "ruler":
        return
    if settings.topology == "none":
        raise errors.UsageError(
            f"{errors.option('topology', 'none')} with {errors.option('judge', 'ruler')}: `none` judges nothing; give "
            f"{errors.option('topology', 'arena')}"
        )
    if settings.require_citations:
        raise errors.UsageError(
            f"{errors.switch('require_citations')} with {errors.option('judge', 'ruler')}: marks of a whole group are "
            f"not cited; leave it out, or give {errors.option('judge', 'pairwise')}"
        )
    if settings.judge_when != "always":
        raise errors.UsageError(
            f"{errors.option('judge_when', settings.judge_when)} with {errors.option('judge', 'ruler')}: a whole group "
            f"is scored at once; give {errors.option('judge_when', 'always')}, or {errors.option('judge', 'pairwise')}"
        )


def _complaints(faults: ValidationError, called: Callable[[str], str]) -> str:
    """Return what is wrong with the first few settings, and how many others there are."""
    each = list(dict.fromkeys(_complaint(error, called) for error in faults.errors(include_url=False)))
    others = f"; and {len(each) - _MOST_COMPLAINTS} faults more" if len(each) > _MOST_COMPLAINTS else ""
    where = errors.where_choices_are(None if called is errors.option else "run")
    return "; ".join(each[:_MOST_COMPLAINTS]) + others + where


def _complaint(error: Any, called: Callable[[str], str]) -> str:
    message = str(error["msg"]).removeprefix("Input ").removeprefix("Value error, ").replace("valid tuple", "list")
    name = str(error["loc"][0])
    if error["type"] == "string_type" and len(error["loc"]) == 1 and (also := SETTINGS[name].also):
        message = f"should be a text, {SETTINGS[name].metavar}, or a {also}"
    value = "" if name in ADDRESSES else errors.quoted(error["input"])  # an address may hold a password
    return f"{errors.joined(called(name), value)}: {message}"
