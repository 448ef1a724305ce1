"""Evidence without a model: how surely claims that no tool output holds are found, and how long that takes.

    python benchmarks/evidence.py [--answers N] [--rng N] [--tuned]

Answers of true, derivable and planted claims are made by rule from tool outputs: searches of the packaged corpus, and
files that the examples of openai-agents 0.24.0 (MIT) read (tests/data/tool_outputs.jsonl), with one row of measurements
beside them. What is planted is a number, date, quotation, address, file, name or citation that stands in no output of
its answer. The rules of harness/evidence were never tuned on the HELD_OUT templates and units (`--tuned`: the others).

Precision: of the claims found unsupported, those that were planted; recall: of those planted, those found. The time is
that of the check with its outputs repeated to a megabyte, over that of one pass of `\\w+` over the same outputs.
"""

import argparse
import json
import random
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal

from harness.evidence.check import check_evidence
from harness.offline.tool import open_corpus, passages_text

OUTPUTS = Path(__file__).parents[1] / "tests" / "data" / "tool_outputs.jsonl"
TOPICS = "lisp fortran cobol algol simula smalltalk pascal prolog ada erlang rust python compilers sql".split()
SENTENCES = 6
Truth = Literal["true", "derivable", "planted"]


@dataclass(frozen=True)
class Forms:
    """How answers are written: units of measurements, and sentences around a claim."""

    units: Sequence[tuple[str, str, float]]
    """Unit in the output, unit in an answer that converts, and how many of the second are one of the first."""
    sentences: Sequence[str]
    days: Sequence[Callable[[int, int, int], str]]
    quoted: Sequence[str]


MONTHS = "January February March April May June July August September October November December".split()


def ordinal(day: int) -> str:
    return f"{day}{'th' if day in (11, 12, 13) else {1: 'st', 2: 'nd', 3: 'rd'}.get(day % 10, 'th')}"


TUNED = Forms(
    units=[
        ("km", "miles", 0.621371),
        ("kg", "lb", 2.204623),
        ("MB", "kB", 1000),
        ("hours", "minutes", 60),
        ("km/h", "mph", 0.621371),
    ],
    sentences=[
        "The record gives {}.",
        "According to the search it is {}, which matters.",
        "- **Figure**: {}",
        "In short: {}",
    ],
    days=[lambda y, m, d: f"{d} {MONTHS[m - 1]} {y}", lambda y, m, d: f"{y}-{m:02}-{d:02}"],
    quoted=["\u201c{}\u201d", '"{}"'],
)
HELD_OUT = Forms(
    units=[
        ("hectares", "acres", 2.471054),
        ("litres", "gallons", 0.264172),
        ("kWh", "MJ", 3.6),
        ("bar", "psi", 14.50377),
        ("knots", "km/h", 1.852),
        ("GHz", "MHz", 1000),
        ("tonnes", "kg", 1000),
    ],
    sentences=[
        "Sources put it at {}.",
        "What stands out ({}) is worth a note.",
        "| item | {} |",
        "> It comes to {}, as the page says.",
        "1. {}: see the notes.",
    ],
    days=[
        lambda y, m, d: f"{MONTHS[m - 1]} {d}, {y}",
        lambda y, m, d: f"{MONTHS[m - 1][:3]} {d}, {y}",
        lambda y, m, d: f"{d:02}.{m:02}.{y}",
        lambda y, m, d: f"the {ordinal(d)} of {MONTHS[m - 1]} {y}",
    ],
    quoted=["\u00ab{}\u00bb", "\u201e{}\u201c", "\u201c{}.\u201d"],
)


@dataclass
class Planted:
    """An answer, the outputs behind it, and where its claims stand."""

    outputs: list[str]
    answer: str = ""
    claims: list[tuple[int, int, str, Truth]] = field(default_factory=list[tuple[int, int, str, Truth]])
    """Begin, end, kind, truth."""

    def add(self, frame: str, kind: str, text: str, truth: Truth) -> None:
        before, _, behind = frame.partition("{}")
        start = len(self.answer) + len(before)
        self.claims.append((start, start + len(text), kind, truth))
        self.answer += f"{before}{text}{behind}\n"


@cache
def tool_outputs() -> list[str]:
    """Return the outputs that answers are made of."""
    found = [json.loads(line)["output"] for line in OUTPUTS.read_text("utf-8").splitlines()]
    return found + [passages_text(topic, open_corpus().search(topic)) for topic in TOPICS]


def number(value: float) -> str:
    return f"{value:,.2f}".rstrip("0").rstrip(".")


class Maker:
    """Makes planted answers by chance."""

    def __init__(self, forms: Forms, rng: random.Random) -> None:
        self.forms, self.rng = forms, rng
        self.kinds: list[Callable[[Planted, Truth], Iterator[tuple[str, str]]]] = [
            self.measured,
            self.of_money,
            self.dated,
            self.year,
            self.quoted,
            self.named,
            self.cited,
        ]

    def answer(self) -> Planted:
        rng = self.rng
        outputs = [*rng.sample(tool_outputs(), 2), self.row()]
        rng.shuffle(outputs)
        made = Planted(outputs)
        while len(made.claims) < SENTENCES:
            truth: Truth = rng.choice(["true", "true", "derivable", "planted"])
            for kind, text in rng.choice(self.kinds)(made, truth):
                frame = rng.choice(self.forms.sentences)
                if truth == "derivable":  # an agent that reckons says of what
                    frame = frame.replace("{}", f"for {self.thing} {{}}")
                made.add(frame, kind, text, truth)
        return made

    def row(self) -> str:
        """Return a row of measurements of one thing, as JSON, a line of a table or a sentence."""
        rng = self.rng
        self.unit = rng.choice(self.forms.units)
        self.thing = rng.choice(["depot Alva", "plant Borken", "station Corvo", "site Dunmore", "yard Esk"])
        self.a, self.b = (round(rng.uniform(20, 9000), rng.choice([0, 1])) for _ in range(2))
        self.day = (rng.randint(2001, 2024), rng.randint(1, 12), rng.randint(1, 28))
        slug = self.thing.split()[1].lower()
        self.names = {
            "url": f"https://data.{slug}.example/reports/{self.day[0]}/q{rng.randint(1, 4)}",
            "email": f"{slug}.desk@measures.example.org",
            "file": f"{slug}_{rng.choice(['log', 'sums', 'draft'])}.{rng.choice(['csv', 'json', 'pdf', 'xlsx'])}",
            "code": f"{rng.choice(['load', 'sum', 'fetch'])}_{slug}_{rng.choice(['rows', 'days', 'parts'])}",
        }
        thing, unit, (year, month, day) = self.thing, self.unit[0], self.day
        a, b, words = f"{number(self.a)} {unit}", f"{number(self.b)} {unit}", MONTHS[month - 1]
        links = ", ".join(f'"{name}": "{text}"' for name, text in self.names.items())
        plain = f'"{thing}": "{self.a:g} {unit}", "before": "{self.b:g} {unit}", "on": "{year}-{month:02}-{day:02}"'
        return rng.choice(
            [
                f"{{{plain}, {links}}}",
                f"| {thing} | {a} | {b} | {day} {words} {year} |\n{links}",
                f"On {words} {day}, {year} {thing} gave {a}, and before {b}.\n{links}",
            ]
        )

    def is_new(self, made: Planted, text: str) -> bool:
        digits = re.sub(r"[^\d]", "", text)
        return all(digits not in re.sub(r"(?<=\d)[,.](?=\d)", "", output) for output in made.outputs)

    def measured(self, made: Planted, truth: Truth) -> Iterator[tuple[str, str]]:
        rng, (unit, other, factor) = self.rng, self.unit
        if truth == "true":
            yield "number", rng.choice([f"{number(self.a)} {unit}", f"{self.a:g} {unit}"])
        elif truth == "planted":
            value = round(self.a * rng.uniform(1.1, 3) + rng.randint(1, 9), 1)
            if self.is_new(made, f"{value:g}"):
                yield "number", f"{number(value)} {unit}"
        else:
            low, high = sorted((self.a, self.b))
            share = round(100 * low / high, 1)
            yield (
                "number",
                rng.choice(
                    [
                        f"{number(round(self.a * factor, 1))} {other}",
                        f"{number(round(self.a + self.b, 1))} {unit}",
                        f"{number(round(high - low, 1))} {unit}",
                        f"{share:g} %",
                    ]
                ),
            )

    def of_money(self, made: Planted, truth: Truth) -> Iterator[tuple[str, str]]:
        found = [
            m
            for output in made.outputs
            for m in re.finditer(r"\$(\d[\d,]*)( million)?(?![\d,.]*\d)|(?<![\w.,])(\d{1,2}(?:\.\d)?)%", output)
        ]
        if not found or truth == "derivable":
            return
        match, rng = self.rng.choice(found), self.rng
        if match[3]:
            value = match[3] if truth == "true" else f"{float(match[3]) + rng.uniform(1, 30):.1f}"
            if truth == "true" or self.is_new(made, value):
                yield "number", rng.choice([f"{value} %", f"{value} percent", f"{value}%"])
            return
        value = int(match[1].replace(",", ""))
        if truth == "planted":
            value = round(value * rng.uniform(1.2, 4)) + rng.randint(1, 9)
            if not self.is_new(made, str(value)):
                return
        forms = [f"${value:,} million", f"${value}M"] if match[2] else [f"${value:,}", f"{value} dollars"]
        yield "number", rng.choice(forms)

    def dated(self, made: Planted, truth: Truth) -> Iterator[tuple[str, str]]:
        del made
        year, month, day = self.day
        if truth == "planted":
            day = day % 28 + self.rng.randint(1, 3)
        if truth != "derivable":
            yield "date", self.rng.choice(self.forms.days)(year, month, day)

    def year(self, made: Planted, truth: Truth) -> Iterator[tuple[str, str]]:
        years = sorted({int(y) for output in made.outputs for y in re.findall(r"\b(?:19|20)\d\d\b", output)})
        if truth == "true" and years:
            yield "date", str(self.rng.choice(years))
        if truth == "planted":
            year = self.rng.randint(1900, 2029)
            if all(str(year) not in output for output in made.outputs):
                yield "date", str(year)

    def quoted(self, made: Planted, truth: Truth) -> Iterator[tuple[str, str]]:
        rng = self.rng
        words = rng.choice(made.outputs).split()
        length = rng.randint(6, 12)
        if truth == "derivable" or len(words) < 2 * length:
            return
        at = rng.randrange(len(words) - length)
        part = words[at : at + length]
        if (
            any(set(word) & set('"\u201c\u201d`\u2026|{}[]<>*') or "..." in word for word in part)
            or sum(w.isalpha() for w in part) < 4
        ):
            return
        if truth == "planted":
            part[rng.randrange(1, length - 1)] = rng.choice(["never", "purple", "twofold", "gladly"])
            if rng.random() < 0.3:
                part.reverse()
        elif rng.random() < 0.3:
            part[length // 2] = "\u2026"
        elif rng.random() < 0.3:
            part[0] = part[0].capitalize()
        yield "quotation", rng.choice(self.forms.quoted).format(" ".join(part))

    def named(self, made: Planted, truth: Truth) -> Iterator[tuple[str, str]]:
        del made
        rng = self.rng
        kind, text = rng.choice(sorted(self.names.items()))
        if truth == "planted":
            old = text.split(".")[0].split("_")[0].rpartition("/")[2]
            text = text.replace(old, rng.choice([f"{old}x", f"my{old}", "other"]), 1)
        if truth != "derivable":
            yield kind, f"`{text}`" if kind == "code" else text

    def cited(self, made: Planted, truth: Truth) -> Iterator[tuple[str, str]]:
        known = {int(n) for output in made.outputs for n in re.findall(r"\[(\d+)\]", output)}
        if truth == "true" and known:
            yield "citation", f"[{self.rng.choice(sorted(known))}]"
        elif truth == "planted":
            yield "citation", f"[{max(known, default=0) + self.rng.randint(1, 9)}]"


def planted_answers(forms: Forms, answers: int, rng: int) -> list[Planted]:
    """Return answers made by chance."""
    maker = Maker(forms, random.Random(rng))
    return [maker.answer() for _ in range(answers)]


@dataclass
class Tally:
    """Of one kind: claims planted, those of them found, other claims found unsupported, true claims in all."""

    planted: int = 0
    found: int = 0
    wrong: int = 0
    true: int = 0

    @property
    def precision(self) -> float:
        return self.found / max(1, self.found + self.wrong)

    @property
    def recall(self) -> float:
        return self.found / max(1, self.planted)


def tally(answers: Sequence[Planted], show: int = 0) -> dict[str, Tally]:
    """Return the counts by kind; "all" for all kinds. A claim that was found but not made counts as wrong."""
    by_kind = defaultdict[str, Tally](Tally)
    for made in answers:
        unsupported = [claim for claim in check_evidence(made.answer, made.outputs) if claim.state == "unsupported"]
        spans = {(claim.start, claim.start + len(claim.text)): claim for claim in unsupported}
        for start, end, kind, truth in made.claims:
            hits = [span for span in spans if span[0] < end and start < span[1]]
            for of in (by_kind[kind], by_kind["all"]):
                of.planted += truth == "planted"
                of.true += truth != "planted"
                of.found += truth == "planted" and bool(hits)
                of.wrong += truth != "planted" and bool(hits)
            if (truth == "planted") != bool(hits) and show > 0:
                show -= 1
                print(truth, kind, repr(made.answer[start - 40 : end + 20]), made.outputs if show < 3 else "")
            for span in hits:
                del spans[span]
        by_kind["all"].wrong += len(spans)
        if spans and show > 0:
            print("not made", list(spans.values()))
    return by_kind


def times(answers: Sequence[Planted], characters: int = 1_000_000) -> tuple[float, float]:
    """Return seconds of the check, and of one pass of a pattern, over the same outputs; the best of five."""
    made = answers[0]
    outputs = [output * (characters // sum(map(len, made.outputs))) for output in made.outputs]
    words = re.compile(r"\w+")

    def best(work: Callable[[], object]) -> float:
        taken = list[float]()
        for _ in range(5):
            began = time.perf_counter()
            work()
            taken.append(time.perf_counter() - began)
        return min(taken)

    return best(lambda: check_evidence(made.answer, outputs)), best(lambda: [words.findall(text) for text in outputs])


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--answers", type=int, default=400)
    parser.add_argument("--rng", type=int, default=1)
    parser.add_argument("--tuned", action="store_true", help="measure on the templates that the rules were tuned on")
    parser.add_argument("--show", type=int, default=0, metavar="N", help="print N claims that were taken wrongly")
    options = parser.parse_args()
    answers = planted_answers(TUNED if options.tuned else HELD_OUT, options.answers, options.rng)
    by_kind = tally(answers, options.show)
    rows = [
        [kind, str(of.planted), str(of.true), f"{of.precision:.3f}", f"{of.recall:.3f}"]
        for kind, of in sorted(by_kind.items(), key=lambda item: item[0] == "all")
    ]
    columns = ["kind", "planted", "true", "precision", "recall"]
    print("  ".join(f"{column:>10}" for column in columns))
    for row in rows:
        print("  ".join(f"{cell:>10}" for cell in row))
    check, one_pass = times(answers)
    print(f"1 MB of outputs: check {1e3 * check:.0f} ms, one pass {1e3 * one_pass:.0f} ms: {check / one_pass:.2f} x")


if __name__ == "__main__":
    main()
