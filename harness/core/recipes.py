"""`--vary`: how the samples of a query differ from the agent as it stands, as a text that people write.

Importing this module loads no pydantic, as importing the settings does not.
"""

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

WAYS = ("temperature", "effort", "instructions", "models")
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""The levels of reasoning effort that OpenAI's client knows."""
MOST_RECIPES = 256
"""As many as a query has rollouts at most; a weight counts as so many recipes."""
MOST_PARAPHRASES = 32
AUTO_PARAPHRASES = 4
"""As many are made where `auto` comes to them."""
AUTO_EFFORTS = ("low", "medium", "high")
"""The levels that `auto` tries."""
INSTEAD = "replace:"
"""The first line of a variant that stands in place of the agent's instructions; any other goes before them."""
_MOST_QUOTED = 60
_NEXT = re.compile(r"\s*x\s*(?=(?:temperature\s*(?:x|$)|(?:effort|instructions|models)\s*=))")
_WEIGHT = re.compile(r"(.*?):([0-9]{1,6})", re.DOTALL)
_DIVIDER = re.compile(r"^---[ \t]*\r?$", re.MULTILINE)
_FORM = (
    "expected temperature, effort=LEVEL,LEVEL, instructions=FILE or models=NAME:WEIGHT,NAME:WEIGHT, or several of them "
    "joined by x, such as effort=low,highxinstructions=FILE; or auto alone"
)


@dataclass(frozen=True)
class Recipe:
    """In what a sample differs from the agent as it stands, beside the temperature."""

    effort: str | None = None
    """The reasoning effort that its calls ask for."""
    instructions: int | None = None
    """Which variant of the starting agent's instructions it had, from 1; the run's settings hold the texts."""
    model: str | None = None
    """The model of every agent."""

    @property
    def name(self) -> str:
        """What people read."""
        words = {"effort": self.effort, "instructions": self.instructions, "model": self.model}
        return ", ".join(f"{way}={value}" for way, value in words.items() if value is not None)

    @property
    def changes_policy(self) -> bool:
        """Whether its prompt or its model is another than the agent's own: to train on it would train on another's."""
        return self.instructions is not None or self.model is not None


@dataclass(frozen=True)
class Vary:
    """In what samples differ. Every recipe has one value of each way that is named."""

    temperature: bool = False
    """The samples go by the run's temperature, and the anchor by 0; else nobody is sent a temperature by the run."""
    efforts: tuple[str, ...] = ()
    models: tuple[tuple[str, int], ...] = ()
    """Names and weights."""
    variants: tuple[str, ...] = ()
    """Texts, each a prefix of the starting agent's instructions, or in their place (INSTEAD)."""
    file: str | None = None
    """The file that the variants are yet to be read from."""
    paraphrases: int | None = None
    """How many variants the model is yet to write."""
    auto: bool = False
    """Which way works is yet to be found out: temperature, else reasoning effort, else paraphrases."""

    @property
    def asks_first(self) -> bool:
        """Whether the model is to be asked something before the first rollout."""
        return self.auto or self.paraphrases is not None

    @property
    def count(self) -> int:
        """How many recipes there are, each as often as its weight says."""
        several = self.paraphrases or max(1, len(self.variants))
        return max(1, len(self.efforts)) * (sum(weight for _, weight in self.models) or 1) * several

    def with_variants(self, variants: Sequence[str]) -> "Vary":
        """Return the same with the texts that were to be read or written. Raises ValueError for too many."""
        return _within_bounds(replace(self, variants=tuple(variants), file=None, paraphrases=None))

    def __str__(self) -> str:
        """Return it as `parse_vary` reads it."""
        if self.auto:
            return "auto"
        words = ["temperature"] if self.temperature else []
        if self.efforts:
            words.append(f"effort={','.join(self.efforts)}")
        if self.models:
            words.append(f"models={','.join(f'{name}:{weight}' for name, weight in self.models)}")
        if self.variants:
            words.append(f"instructions={json.dumps(self.variants, ensure_ascii=False)}")
        elif self.file or self.paraphrases:
            words.append(f"instructions={self.file or self.paraphrases}")
        return "x".join(words)


BY_TEMPERATURE = Vary(temperature=True)
"""Where nobody says anything."""


def parse_vary(text: str) -> Vary:
    """Return what a text asks for. Raises ValueError: what is wrong, with which value, and what to write."""
    if text.strip() == "auto":
        return Vary(auto=True)
    vary, seen = Vary(), set[str]()
    for word in _words(text):
        way, equals, value = (part.strip() for part in word.partition("="))
        if way not in WAYS:
            raise ValueError(f"{_quoted(word)} is no way to vary; {_FORM}")
        if way in seen:
            raise ValueError(f"{way} is named twice: name all of its values at once, with commas")
        seen.add(way)
        if way == "temperature" and equals:
            raise ValueError(f"temperature={_cut(value)}: temperature takes no value here; --temperature sets it")
        if way != "temperature" and not value:
            raise ValueError(f"{way} has no value; {_FORM}")
        vary = _READ[way](vary, value)
    return _within_bounds(vary)


def vary_word(text: str | None) -> str | None:
    """Return a setting's text as it is kept; None: samples differ by temperature alone. Raises ValueError."""
    return None if text is None else str(parse_vary(text))


def vary_text(value: Any) -> Any:
    """Return ways to vary as the option takes them, from a mapping of ways to values; anything else as it is."""
    if not isinstance(value, Mapping):
        return value
    words = [_written(str(way), given) for way, given in cast("Mapping[Any, Any]", value).items()]
    return "x".join(word for word in words if word)


def parse_variants(text: str) -> tuple[str, ...]:
    """Return the texts of a file of variants, which lines of `---` divide. Raises ValueError where one is empty."""
    variants = [variant.strip() for variant in _DIVIDER.split(text)]
    if len(variants) > 1 and not variants[-1]:  # a line of --- at the end
        variants.pop()
    _check_variants(variants)
    return tuple(variants)


def parse_paraphrases(reply: str, own: str, count: int) -> tuple[str, ...]:
    """Return at most `count` different texts of a model's reply, which lines of `---` divide, as variants."""
    texts = dict.fromkeys(text for part in _DIVIDER.split(reply) if (text := part.strip()) and text != own.strip())
    return tuple(f"{INSTEAD}\n{text}" for text in texts)[:count]


def varied(own: str, variant: str) -> str:
    """Return an agent's own instructions as a variant has them."""
    first, _, rest = variant.partition("\n")
    if first.strip() == INSTEAD:
        return rest.strip()
    return f"{variant}\n\n{own}" if own else variant


def _words(text: str) -> list[str]:
    """Return the ways that a text joins by x. A list of texts, as JSON, may hold whatever it likes."""
    words, at = list[str](), 0
    while True:
        listed = re.compile(r"\s*instructions\s*=\s*(?=\[)").match(text, at)
        behind = _end_of_list(text, listed.end()) if listed else at
        found = _NEXT.search(text, behind)
        words.append(text[at : found.start() if found else len(text)].strip())
        if found is None:
            return words
        at = found.end()


def _end_of_list(text: str, at: int) -> int:
    try:
        return json.JSONDecoder().raw_decode(text, at)[1]
    except (ValueError, RecursionError) as exc:
        raise ValueError(f"instructions={_quoted(text[at:])} is no list of texts in JSON ({exc})") from None


def _efforts(vary: Vary, value: str) -> Vary:
    levels = _listed("effort", value)
    for level in levels:
        if level not in EFFORTS:
            levels_known = ", ".join(EFFORTS)
            raise ValueError(f"effort={_cut(level)}: no level of reasoning effort; the levels are {levels_known}")
    return replace(vary, efforts=levels)


def _models(vary: Vary, value: str) -> Vary:
    models = list[tuple[str, int]]()
    for word in _listed("models", value):
        weighed = _WEIGHT.fullmatch(word)  # a name may hold a colon: llama3:8b
        name, weight = (weighed[1], int(weighed[2])) if weighed else (word, 1)
        if not (name and name.isprintable() and weight):
            raise ValueError(
                f"models={_cut(word)}: expected the name of a model, and a weight of at least 1, as in a:2,b:1"
            )
        models.append((name, weight))
    if twice := _twice([name for name, _ in models]):
        raise ValueError(f"models: {_quoted(twice)} is named twice; give it a weight, such as {twice}:2")
    divisor = math.gcd(*(weight for _, weight in models))
    return replace(vary, models=tuple((name, weight // divisor) for name, weight in models))


def _instructions(vary: Vary, value: str) -> Vary:
    if value.startswith("["):
        return replace(vary, variants=_variants_in(value))
    if value == "auto":
        return replace(vary, paraphrases=AUTO_PARAPHRASES)
    if not value.isdecimal():
        return replace(vary, file=value)
    number = int(value[:9])
    if not 1 <= number <= MOST_PARAPHRASES:
        raise ValueError(
            f"instructions={_cut(value)}: expected 1 to {MOST_PARAPHRASES} paraphrases (write ./4 for a file named 4)"
        )
    return replace(vary, paraphrases=number)


_READ: Mapping[str, Callable[[Vary, str], Vary]] = {
    "temperature": lambda vary, _: replace(vary, temperature=True),
    "effort": _efforts,
    "instructions": _instructions,
    "models": _models,
}


def _variants_in(value: str) -> tuple[str, ...]:
    try:
        texts: Any = json.loads(value)
    except ValueError:
        raise ValueError(f"instructions={_quoted(value)}: behind the list, x and another way may stand") from None
    if not all(isinstance(text, str) for text in texts):
        raise ValueError(f"instructions={_quoted(value)}: the list holds what is no text; put each variant in quotes")
    _check_variants(texts)
    return tuple(texts)


def _check_variants(variants: Sequence[str]) -> None:
    for number, variant in enumerate(variants, 1):
        if not varied("", variant).strip():
            raise ValueError(f"variant {number} of the instructions is empty: write it, or take its line of --- out")
    if twice := _twice(variants):
        raise ValueError(f"the variant {_quoted(twice)} stands there twice: leave one out")
    if not variants:
        raise ValueError("the list of instructions is empty: write at least one variant")


def _listed(way: str, value: str) -> tuple[str, ...]:
    words = tuple(word.strip() for word in value.split(","))
    if not all(words):
        raise ValueError(f"{way}={_cut(value)}: a value is empty; write {way}=A,B")
    if twice := _twice(words):
        raise ValueError(f"{way}={_cut(value)}: {_quoted(twice)} stands there twice; leave one out")
    return words


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_QUOTED else f"{text[:_MOST_QUOTED]}..."


def _quoted(text: str) -> str:  # harness.core.errors reads the settings, and the settings this module
    return repr(_cut(text))


def _twice(words: Sequence[str]) -> str | None:
    return next((word for at, word in enumerate(words) if word in words[:at]), None)


def _within_bounds(vary: Vary) -> Vary:
    if vary.count > MOST_RECIPES:
        raise ValueError(
            f"makes {vary.count:,} recipes, weights included, and there may be {MOST_RECIPES}: name fewer values, or "
            "smaller weights"
        )
    return vary


def _written(way: str, value: Any) -> str:
    """Return one way with its values, as a mapping gives them; "" where it is turned off."""
    if way == "temperature" and isinstance(value, bool):
        return way if value else ""
    if isinstance(value, Mapping):
        weighed = cast("Mapping[Any, Any]", value)
        return f"{way}={','.join(f'{name}:{weight}' for name, weight in weighed.items())}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        values = list(cast("Sequence[Any]", value))
        return f"{way}={json.dumps(values, default=str) if way == 'instructions' else ','.join(map(str, values))}"
    return f"{way}={value}"
