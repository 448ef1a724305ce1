"""Probes of a judge's leanings: pairs of texts that differ in nothing but a feature, made by rule from answers."""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import count, islice
from typing import NamedTuple

from harness.core.answer_features import leaning_features, without_markup

MOST_PROBES = 20
"""Each is judged in both orders."""
_OF_FORMATTING, _OF_ITSELF = 3, 3
"""So many at most; the others are of length."""
_TIMES = (2, 3)
"""How many times as long a padded answer is."""
_LONGEST = 6000
"""Characters beyond which an answer makes no probe, if others do."""
_LEAST_DIFFERENCE = 0.2
"""By which the two texts of a probe of formatting, or of talk of itself, differ."""
_OPENINGS = (
    *("As far as this goes", "In this respect", "Taken as a whole", "To put it in context"),
    *("With regard to the question", "At this point", "On the matter at hand"),
)
_MIDDLES = (
    *("there are several things to bear in mind", "it is worth noting what was asked"),
    *("the subject has more than one side", "the answer depends on how it is read", "the usual considerations apply"),
    *("it helps to look at the whole picture", "much could be said in general"),
    *("the topic deserves some attention", "a number of points come together"),
)
_ENDINGS = (
    *("when it comes down to it", "in one way or another", "as is often the case", "for the purpose of this answer"),
    *("from a general point of view", "for whoever reads this", "all things considered", "in the broader sense"),
)
_A_PARAGRAPH = 5
_SENTENCE = re.compile(r"(?m)(^|(?<=[.!?]) )(?!I\b)([A-Z])(?=[a-z ])")
_CODE = "```"


class AnswerAtHand(NamedTuple):
    """An answer of a run."""

    query: str
    rollout: int
    text: str


class Probe(NamedTuple):
    """Two texts to stand in the place of one answer; the first has more of the feature."""

    of: AnswerAtHand
    first: str
    second: str

    @property
    def differences(self) -> tuple[float, ...]:
        """The features of the first text less those of the second."""
        both = (leaning_features(text).values for text in (self.first, self.second))
        return tuple(a - b for a, b in zip(*both, strict=True))


def probes_from(answers: Sequence[AnswerAtHand]) -> list[Probe]:
    """Return at most MOST_PROBES probes, at least half of them of length, always the same for the same answers."""
    different = {(a.query, a.text): a for a in reversed(answers) if a.text.strip()}
    known = list(different.values())[::-1]
    short = [a for a in known if len(a.text) <= _LONGEST]
    usable = short or sorted(known, key=lambda answer: len(answer.text))[:MOST_PROBES]
    others = [
        *islice(_differing(usable, _formatted, 1), _OF_FORMATTING),
        *islice(_differing(usable, _speaking_of_itself, 2), _OF_ITSELF),
    ]
    lengths = [
        Probe(answer, padded(answer.text, _TIMES[(at + turn) % len(_TIMES)]), answer.text)
        for turn in range(len(_TIMES))
        for at, answer in enumerate(usable)
    ]
    lengths = lengths[: MOST_PROBES - len(others)]
    return [*lengths, *others[: len(lengths)]]


def padded(text: str, times: int) -> str:
    """Return a text followed by sentences without content, so that it is so many times as long."""
    sentences, missing = list[str](), (times - 1) * len(text)
    for at in count():
        if missing <= 0:
            break
        parts = (words[at % len(words)] for words in (_OPENINGS, _MIDDLES, _ENDINGS))
        sentences.append("{}, {} {}.".format(*parts))
        missing -= len(sentences[-1]) + 1
    paragraphs = (sentences[at : at + _A_PARAGRAPH] for at in range(0, len(sentences), _A_PARAGRAPH))
    return "\n\n".join([text.rstrip(), *map(" ".join, paragraphs)])


def _differing(
    answers: Sequence[AnswerAtHand], pair: Callable[[str], tuple[str, str]], feature: int
) -> Iterator[Probe]:
    """Yield the probes of those answers of which a rule makes two texts that differ enough."""
    for answer in answers:
        probe = Probe(answer, *pair(answer.text))
        if _CODE not in answer.text and probe.differences[feature] >= _LEAST_DIFFERENCE:
            yield probe


def _formatted(text: str) -> tuple[str, str]:
    """Return a text with its markup and without it; one that has none with some."""
    if (plain := without_markup(text)) != text:
        return text, plain
    return "\n".join(_as_item(line) if line.strip() else line for line in text.splitlines()), text


def _as_item(line: str) -> str:
    first, *rest = line.split(maxsplit=1)
    return " ".join(["-", f"**{first}**", *rest])


def _speaking_of_itself(text: str) -> tuple[str, str]:
    """Return a text whose sentences and end are in the first person, and one as long in which nobody speaks."""

    def with_words(opening: str, end: str) -> str:
        said = _SENTENCE.sub(lambda match: f"{match[1]}{opening}{match[2].lower()}", text.strip())
        return f"{said}\n\n{end}"

    return (
        with_words("I think that ", "I am sorry if this is not all that I was asked."),
        with_words("It seems that ", "This may not be all of what was asked here."),
    )
