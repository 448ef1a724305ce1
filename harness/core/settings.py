"""Settings of a run, and where its models live.

Precedence: flags, `HARNESS_*` environment, `--config` YAML, defaults. Keys are not settings: they stay in the
environment and in `Endpoint`, which nothing writes down.
"""

import os
import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, cast
from urllib.parse import urlsplit, urlunsplit

import yaml
from pydantic import AfterValidator, BeforeValidator, Field, ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from harness.core.errors import UsageError, did_you_mean

Api = Literal["responses", "chat"]
OFFLINE_JUDGE = "offline-features"
OFFLINE_MODEL = "offline-extractive"
_LEAST_BUDGET = 200
"""Tokens of two transcripts below which little but the marks of the cuts would be left."""


def _no_scrap(tokens: int) -> int:
    if tokens and tokens < _LEAST_BUDGET:
        raise ValueError(f"should be 0 (no limit) or at least {_LEAST_BUDGET}")
    return tokens


def _lone(value: Any) -> Any:
    """Take a flag that may be repeated, given once, for its only value."""
    if not isinstance(value, list | tuple):
        return value
    several = tuple(cast("Sequence[Any]", value))
    return several if len(several) > 1 else several[0] if several else None


def _pattern(text: str) -> str:
    try:
        found = re.compile(text)
    except re.error as exc:
        raise ValueError(f"not a regular expression ({exc})") from None
    if found.match(""):
        raise ValueError("a pattern that fits the empty text would fit everywhere")
    return text


def _part(word: str) -> str:
    query, slash, index = word.rpartition("/")
    if not (index.isdecimal() or (slash and query and not index)):
        raise ValueError("expected a rollout's index K, QUERY/K for that of one query, or QUERY/ for all of one")
    return f"{query}{slash}{int(index) if index else ''}"


class Settings(BaseSettings):
    """Everything about a run that a user may set, checked before anything is spent."""

    model_config = SettingsConfigDict(env_prefix="HARNESS_", frozen=True, extra="forbid", allow_inf_nan=False)

    n: Annotated[int, Field(ge=1, le=256)] = 8
    temperature: Annotated[float, Field(ge=0, le=2)] = 0.8
    top_p: Annotated[float | None, Field(gt=0, le=1)] = None
    strict_temperature: bool = False
    anchor_failed: Literal["rank", "stop"] = "rank"
    model: str | None = None
    base_url: str | None = None
    api: Api | None = None
    judge: Literal["pairwise", "ruler"] = "pairwise"
    judge_model: Annotated[str | tuple[str, ...] | None, BeforeValidator(_lone)] = None
    """A name, or a jury's several."""
    judge_base_url: Annotated[str | tuple[str, ...] | None, BeforeValidator(_lone)] = None
    """One address for all, or one for each of `judge_model` by position."""
    jury: Literal["mean", "median"] = "mean"
    judge_api: Api | None = None
    judge_label: str | None = None
    judge_timeout: Annotated[float, Field(gt=0)] = 120.0
    judge_concurrency: Annotated[int, Field(ge=1)] = 32
    judge_budget: Annotated[int, AfterValidator(_no_scrap)] = 32_000
    """Tokens of both transcripts together; 0 for no limit."""
    judge_repeats: Annotated[int, Field(ge=1, le=100)] = 1
    max_cost: Annotated[float | None, Field(ge=0)] = None
    """USD that one command may spend, agent and judge together."""
    rubric: str = "writing"
    show_instructions: bool = True
    topology: Literal["arena", "anchor", "single", "double", "swiss", "round_robin", "cyclic", "none"] = "arena"
    estimator: Literal["tiers", "wins", "margins", "bt"] = "tiers"
    reward: Literal["rank", "score"] = "rank"
    order: Literal["both", "balanced", "single"] | None = None
    """None: the topology's usual orders."""
    budget: Annotated[int | None, Field(ge=1)] = None
    """Judge calls a group, for `cyclic`."""
    sure: Annotated[float | None, Field(gt=0, le=1)] = None
    """Stop judging a `cyclic` group once its leader is best for certain (1), or with this probability."""
    judge_when: Literal["always", "tied"] = "always"
    """tied: the judge sees only rollouts that the agent's own `reward` leaves level."""
    failed: Literal["by-cause", "exclude", "last"] = "by-cause"
    include: tuple[Annotated[str, AfterValidator(_part)], ...] = ()
    """The rollouts that a ranking is of, each word K, QUERY/K or QUERY/; without any, all are."""
    exclude: tuple[Annotated[str, AfterValidator(_part)], ...] = ()
    """Rollouts that are left out of a ranking."""
    concurrency: Annotated[int, Field(ge=1)] = 16
    timeout: Annotated[float, Field(gt=0)] = 300.0
    max_turns: Annotated[int, Field(ge=1)] = 20
    max_failures: Annotated[int, Field(ge=0)] = 0
    seed: int = 0
    redact: tuple[Annotated[str, AfterValidator(_pattern)], ...] = ()
    offline: bool = False
    corpus: Path | None = None
    runs_dir: Path = Path("runs")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Leave only what `load` hands in: it has merged the sources already, and names them in its errors."""
        del settings_cls, env_settings, dotenv_settings, file_secret_settings
        return (init_settings,)


JUDGE_KEY = "HARNESS_JUDGE_API_KEY"
_FOR_A_BUDGET = {"topology": "cyclic", "estimator": "margins"}


def chosen(flags: Mapping[str, Any], environ: Mapping[str, str], config: Path | None) -> dict[str, Any]:
    """Return what the user set, flags over environment over YAML; flags that are None count as not given.

    Raises UsageError for a config file that is missing, broken or not a mapping.
    """
    env: dict[str, Any] = {
        k.removeprefix("HARNESS_").lower(): v for k, v in environ.items() if k.startswith("HARNESS_")
    }
    given = {k: v for k, v in flags.items() if v is not None and v != []}
    for name in ("redact", "include", "exclude"):
        if name in env:
            env[name] = [env[name]]
    return _yaml(config) | {k: v for k, v in env.items() if k in Settings.model_fields} | given


def misspelt(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what in the environment is most likely meant for a setting, with the true name.

    Not an error: another tool's variables may begin with HARNESS_ as well.
    """
    known = {f"HARNESS_{name.upper()}" for name in Settings.model_fields}
    strange = sorted(n for n in environ if n.startswith("HARNESS_") and n not in known | {JUDGE_KEY})
    near = {name: get_close_matches(name, known | {JUDGE_KEY}, n=1, cutoff=0.9) for name in strange}
    return {name: found[0] for name, found in near.items() if found}


def load(values: Mapping[str, Any]) -> Settings:
    """Check `values` and fill in the defaults. Raises UsageError, one line, naming setting, value and bounds.

    A budget without a topology picks `cyclic` and, without an estimator, `margins`: the best there is for a budget.
    """
    for name in values:
        if name not in Settings.model_fields:
            raise UsageError(f"no setting {name!r}{did_you_mean(name, Settings.model_fields)}")
    picked: dict[str, Any] = _FOR_A_BUDGET if values.get("budget") is not None else {}
    try:
        settings = Settings(**{**picked, **values})
    except ValidationError as exc:
        raise UsageError("; ".join(_complaint(e) for e in exc.errors())) from None
    _check_budget(settings)
    _check_ruler(settings)
    return settings


def changed(before: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return an archived run's settings under changes.

    A budget given now picks the design anew; another topology given now drops a budget, and what that had picked.
    """
    kept = dict(before)
    now_budget = changes.get("budget") is not None and "topology" not in changes
    now_other = changes.get("topology") not in {None, "cyclic"} and "budget" not in changes
    if now_budget or (now_other and kept.get("budget") is not None):
        kept = {k: v for k, v in kept.items() if k not in {"budget", *_FOR_A_BUDGET}}
    return kept | dict(changes)


def _check_budget(settings: Settings) -> None:
    if settings.budget is None:
        return
    if settings.topology != "cyclic":
        raise UsageError(
            f"--budget {settings.budget} with --topology {settings.topology}: a budget is spent by `cyclic`; leave "
            "out one of the two"
        )
    least = (settings.n - 1) * (2 if settings.order == "both" else 1)
    if settings.budget < least:
        raise UsageError(
            f"--budget {settings.budget}: {settings.n} rollouts need at least {least} judge calls to be compared "
            "with each other, directly or through others"
        )


def _check_ruler(settings: Settings) -> None:
    """Refuse what would make a listwise judge spend where the user asks that little or nothing be judged."""
    if settings.judge != "ruler":
        return
    if settings.topology == "none":
        raise UsageError("--topology none with --judge ruler: `none` judges nothing; give --topology arena")
    if settings.judge_when != "always":
        raise UsageError(
            f"--judge-when {settings.judge_when} with --judge ruler: a whole group is scored at once; "
            "give --judge-when always, or --judge pairwise"
        )


def _complaint(error: Any) -> str:
    name = str(error["loc"][0])
    message = str(error["msg"]).removeprefix("Input ").removeprefix("Value error, ")
    flag = "-n" if name == "n" else f"--{name.replace('_', '-')}"
    return f"{flag} {error['input']!r}: {message} (range and choices: `harness run --help`)"


def _yaml(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        loaded: Any = yaml.safe_load(path.read_text("utf-8")) or {}
    except OSError as exc:
        raise UsageError(f"--config {path}: {exc.strerror}") from None
    except (yaml.YAMLError, ValueError) as exc:  # ValueError: no UTF-8, or a date like 2026-13-45
        raise UsageError(f"--config {path} is not YAML: {str(exc).splitlines()[0]}") from None
    if not isinstance(loaded, dict):
        raise UsageError(f"--config {path}: expected `setting: value` lines, found a {type(loaded).__name__}")
    return {str(k).replace("-", "_"): v for k, v in loaded.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def without_credentials(url: str | None) -> str | None:
    """Return `url` without user, password, query and fragment, fit to be written down."""
    if url is None:
        return None
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def environment() -> Mapping[str, str]:
    """Return the process's environment, the one place where it is read."""
    return dict(os.environ)


def as_written(settings: Settings) -> dict[str, Any]:
    """Return settings fit to be written down: no user or password in an address."""
    plain = settings.model_dump(mode="json")
    return plain | {name: _bare(plain[name]) for name in ("base_url", "judge_base_url")}


def _bare(url: str | list[str] | None) -> str | list[str | None] | None:
    return [without_credentials(one) for one in url] if isinstance(url, list) else without_credentials(url)
