"""What is declared of one setting: words, bounds, option, checks of its values (one is the part K of N)."""

import hashlib
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from types import NoneType
from typing import Any, Literal, NamedTuple, TypeVar, cast, get_args, get_origin

T = TypeVar("T")
_LONGEST_PATTERN = 10_000
_LEAST_BUDGET = 200
"""Tokens of two transcripts below which little but the marks of the cuts would be left."""


@dataclass(frozen=True)
class Setting:
    """What is declared of one setting."""

    help: str
    """A sentence for people."""
    _: KW_ONLY
    default_text: str | None = None
    """What the default means, where its value does not say it; "" where nothing needs saying."""
    metavar: str | None = None
    at_least: float | None = None
    above: float | None = None
    at_most: float | None = None
    check: Callable[[Any], Any] | None = None
    """A further check of each value: returns the value to use, or raises ValueError."""
    off_flag: str | None = None
    on_flag: str | None = None
    """The option, where it is not named as the setting is."""
    words: Callable[[Any], Any] | None = None
    """Turns what a file or Python may give as well, such as a mapping, into the words that the option takes."""
    also: str = ""
    """The type of what Python may give as well, as it is written down."""
    name: str = ""
    type: Any = str
    default: Any = None

    @property
    def flag(self) -> str:
        """The option on the command line."""
        return "-n" if self.name == "n" else self.on_flag or f"--{self.name.replace('_', '-')}"

    @property
    def types(self) -> tuple[Any, ...]:
        """The types of a value, None aside."""
        alternatives = () if get_origin(self.type) in {tuple, Literal} else get_args(self.type)
        return tuple(t for t in alternatives if t is not NoneType) or (self.type,)

    @property
    def choices(self) -> tuple[str, ...]:
        """The words to choose from; empty where the value is free."""
        return get_args(self.types[0]) if get_origin(self.types[0]) is Literal else ()

    @property
    def repeatable(self) -> bool:
        """Whether the setting takes several values."""
        return any(get_origin(t) is tuple for t in self.types)

    @property
    def takes_one(self) -> bool:
        """Whether the setting takes a single value as such, not as a list of one."""
        return not all(get_origin(t) is tuple for t in self.types)

    @property
    def default_shown(self) -> str:
        """The default as people read it; empty where there is nothing to say."""
        if self.default_text is not None:
            return self.default_text
        return f"{self.default:g}" if isinstance(self.default, float) else str(self.default)

    @property
    def in_python(self) -> str:
        """What it is for, its default and its range, for Python callers."""
        remarks = [f"default: {self.default_shown}" if self.default_shown else "", self.bounds]
        remark = "; ".join(filter(None, remarks))
        text = f"{self.help}{f' [{remark}]' if remark else ''}"
        return re.sub(r"--([a-z-]+)", lambda flag: flag[1].replace("-", "_"), text).replace("FILE.md", "file")

    @property
    def bounds(self) -> str:
        """The range of a number as people read it; empty where there is none."""
        if self.at_least is not None and self.at_most is not None:
            return f"{self.at_least:g} to {self.at_most:g}"
        limits = (("at least", self.at_least), ("above", self.above), ("at most", self.at_most))
        return ", ".join(f"{word} {limit:g}" for word, limit in limits if limit is not None)


def declare(default: T, meaning: str, **options: Any) -> T:
    """Return a field of `Settings`: its default, and what else is declared of it, as `Setting` takes it."""
    return field(default=default, metadata={"setting": Setting(meaning, **options)})


def enough_tokens(tokens: int) -> int:
    """Return the tokens of a judge's budget: 0, or enough to show something. Raises ValueError."""
    if tokens and tokens < _LEAST_BUDGET:
        raise ValueError(f"should be 0 (no limit) or at least {_LEAST_BUDGET}")
    return tokens


def pattern_word(text: str) -> str:
    """Return a regular expression that fits something. Raises ValueError."""
    if len(text) > _LONGEST_PATTERN:
        raise ValueError(f"a pattern has at most {_LONGEST_PATTERN:,} characters")
    try:
        with warnings.catch_warnings(action="ignore"):  # of what a later Python may read otherwise, as in [[a]
            pattern = re.compile(text)
    except (re.error, OverflowError) as exc:
        raise ValueError(f"not a regular expression ({exc})") from None
    except RecursionError:
        raise ValueError("not a regular expression that Python can read: nested too deep") from None
    if pattern.match(""):
        raise ValueError("a pattern that fits the empty text would fit everywhere")
    return text


def rollout_word(word: str) -> str:
    """Return K, QUERY/K or QUERY/ with K as a plain number. Raises ValueError."""
    query, slash, index = word.rpartition("/")
    if not (index.isdecimal() or (slash and query and not index)):
        raise ValueError("expected a rollout's index K, QUERY/K for that of one query, or QUERY/ for all of one")
    return f"{query}{slash}{int(index) if index else ''}"


def profile_text(value: Any) -> Any:
    """Return a judge's profile, as any record, as the text that is kept of it; anything else as it is."""
    as_text = getattr(value, "model_dump_json", None)  # the class itself would load pydantic for every `--help`
    return as_text() if callable(as_text) and not isinstance(value, type) else value


def agent_words(value: Any) -> Any:
    """Return words for agents: those given, and the names of those that are given as objects."""
    if isinstance(value, list | tuple):
        return [agent_words(each) for each in cast("Sequence[Any]", value)]
    named = getattr(value, "name", None) or getattr(value, "__name__", None) or getattr(value, "agent", None)
    return value if named is None or isinstance(value, str) else agent_words(named)


_WRITTEN = re.compile(r"([0-9]{1,7})/([0-9]{1,7})")
MOST_SHARDS = 100_000


class Shard(NamedTuple):
    """Part `number`, from 1, of so many parts `of` all queries."""

    number: int
    of: int

    def __str__(self) -> str:
        """Return it as a user writes it, `3/8`."""
        return f"{self.number}/{self.of}"

    def holds(self, query_id: str) -> bool:
        """Tell whether a query falls into this part."""
        return int.from_bytes(hashlib.sha256(query_id.encode()).digest()[:8]) % self.of == self.number - 1


def shard_in(text: str) -> Shard:
    """Return the part that a text such as `3/8` names. Raises ValueError."""
    written = _WRITTEN.fullmatch(text)
    shard = Shard(*map(int, written.groups())) if written else None
    if shard is None or not 1 <= shard.number <= shard.of <= MOST_SHARDS:
        raise ValueError(f"expected K/N, part K of N, such as 3/8: K from 1 to N, N up to {MOST_SHARDS:,}")
    return shard


def shard_word(text: str | None) -> str | None:
    """Return a setting's text as it is kept: `03/8` is `3/8`; None: all queries. Raises ValueError as `shard_in`."""
    return None if text is None else str(shard_in(text))
