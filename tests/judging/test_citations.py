"""What a verdict cites is held against the transcripts that the judge was shown."""

import json
import random
import unicodedata
from collections.abc import Callable
from typing import Any

import pytest

from harness.core.rankings import Judged, Unjudged
from harness.core.records import Step, Trajectory
from harness.judging.citations import CITATION_NOTE, citable, read_citations, uncited
from harness.judging.judges import EmbeddedAsk
from harness.judging.prompt import fixed_message, prompt_fingerprint
from harness.judging.reply import remark_names, schema
from harness.transcripts.transcript import Transcript, transcribe
from tests.judging.replies import WRITING, text_of
from tests.judging.scripted import ScriptedAsk, judge

WORDS = (
    "the depot of Málaga took crates and barrels by rail in spring, while the café “Zur Brücke” sold 41 % less — "
    "nobody had expected that; Fürth’s naïve plan (of 1901) failed, although 1,204 people had signed it. "
)


def side(rng: random.Random, name: str) -> tuple[Transcript, list[str]]:
    """A transcript of four steps and an answer, and the text of each: words of its own, the answer's last."""
    texts = [
        " ".join(f"{name}{n}{rng.choice('abcdefgh')}{i} {word}" for i, word in enumerate(WORDS.split()))
        for n in range(5)
    ]
    path = tuple(Step(kind="tool", tool_name="read", tool_output=text.replace("; ", ";\n")) for text in texts[:4])
    return transcribe(Trajectory(query="?", path=path, answer=texts[4])), texts


RNG = random.Random(5)
(ONE, ONES), (TWO, TWOS) = side(RNG, "o"), side(RNG, "t")
TEXTS: dict[str, list[str]] = {"A": ONES, "B": TWOS}


def true_citation(rng: random.Random) -> dict[str, Any]:
    of, at = rng.choice("AB"), rng.randrange(5)
    words = TEXTS[of][at].split()
    start = 2 * rng.randrange(len(words) // 2 - 5)
    quote = " ".join(words[start : start + rng.randint(6, 10)])
    return {"reason": "path_A", "side": of, "step": None if at == 4 else at + 1, "quote": quote}


def found(citation: Any) -> bool:
    (read,) = read_citations([citation], ONE, TWO)
    return read.found


Change = Callable[[dict[str, Any], random.Random], Any]
FORGERIES: dict[str, Change] = {
    "another step": lambda c, r: c | {"step": (c["step"] or 0) % 4 + 1},
    "no such step": lambda c, r: c | {"step": r.choice([0, 5, 99, -1, 10**30])},
    "a step in words": lambda c, r: c | {"step": f"{c['step']}"},
    "a broken step": lambda c, r: c | {"step": (c["step"] or 1) + 0.5},
    "true for one": lambda c, r: c | {"step": True},
    "no step at all": lambda c, r: {name: value for name, value in c.items() if name != "step"},
    "the other side": lambda c, r: c | {"side": "B" if c["side"] == "A" else "A"},
    "no such side": lambda c, r: c | {"side": r.choice(["C", "", "a", "AB", None, ["A"]])},
    "empty": lambda c, r: c | {"quote": r.choice(["", " ", "\n\t", "\u00a0"])},
    "an ellipsis": lambda c, r: c | {"quote": r.choice(["…", "...", "[…]", " … … ", "(...)", "… , …"])},
    "marks": lambda c, r: c | {"quote": r.choice([".", "—", "“”", ";", "(", "**", '"'])},
    "no text": lambda c, r: c | {"quote": r.choice([None, 41, ["the"], {"a": 1}, True])},
    "a letter": lambda c, r: c | {"quote": r.choice("oet4") + r.choice(["", "…", " … o"])},
    "letters between ellipses": lambda c, r: (
        c | {"quote": "…".join(c["quote"].split()[1].strip(",.;")[:1] for _ in range(4))}
    ),
    "words turned round": lambda c, r: c | {"quote": " ".join(reversed(c["quote"].split()))},
    "a word put in": lambda c, r: c | {"quote": c["quote"].replace(" ", " never ", 1)},
    "a word left out": lambda c, r: c | {"quote": " ".join(c["quote"].split()[:1] + c["quote"].split()[2:])},
    "fragments turned round": lambda c, r: (
        c | {"quote": " … ".join((" ".join(c["quote"].split()[3:]), " ".join(c["quote"].split()[:3])))}
    ),
    "a word cut off": lambda c, r: c | {"quote": c["quote"][1:]},
    "no citation": lambda c, r: r.choice([None, 5, "path_A", [c], []]),
}
CHANGES: dict[str, Change] = {
    "as it is": lambda c, r: c,
    "NFC": lambda c, r: c | {"quote": unicodedata.normalize("NFC", c["quote"])},
    "NFD": lambda c, r: c | {"quote": unicodedata.normalize("NFD", c["quote"])},
    "NFKD": lambda c, r: c | {"quote": unicodedata.normalize("NFKD", c["quote"])},
    "lines": lambda c, r: c | {"quote": c["quote"].replace(" ", "\n")},
    "tabs and wide spaces": lambda c, r: (
        c | {"quote": f"\u2003{c['quote'].replace(' ', r.choice([chr(9), '  ', chr(160), chr(0x2009)]))} "}
    ),
    "an ellipsis": lambda c, r: (
        c | {"quote": " … ".join((" ".join(c["quote"].split()[:2]), " ".join(c["quote"].split()[3:])))}
    ),
    "three dots": lambda c, r: c | {"quote": f"... {c['quote']} [...]"},
    "quotation marks": lambda c, r: (
        c | {"quote": f"“{c['quote'].replace('“', chr(34)).replace('”', chr(34)).replace('’', chr(39))}”"}
    ),
    "dashes": lambda c, r: c | {"quote": c["quote"].replace("—", "-")},
}


def test_of_500_forged_citations_of_20_kinds_none_is_accepted():
    rng = random.Random(1)
    assert len(FORGERIES) == 20
    forged = [(kind, change(true_citation(rng), rng)) for _ in range(25) for kind, change in FORGERIES.items()]
    assert [(kind, citation) for kind, citation in forged if found(citation)] == []


def test_of_500_true_citations_in_other_marks_spaces_and_unicode_forms_99_percent_are_accepted():
    rng = random.Random(2)
    true = [(kind, change(true_citation(rng), rng)) for _ in range(50) for kind, change in CHANGES.items()]
    refused = [(kind, citation) for kind, citation in true if not found(citation)]
    assert len(refused) <= 5, refused


@pytest.mark.parametrize("said", [None, "none", {}, [], 3])
def test_a_reply_that_cites_nothing_has_no_citations(said: Any):
    assert read_citations(said, ONE, TWO) == ()


def test_a_remark_on_a_block_with_nothing_in_it_needs_no_citation():
    empty = transcribe(Trajectory(query="?"))
    names = ["path_A", "path_B", "answer_A", "answer_B"]
    assert citable(names, ONE, empty) == ["path_A", "answer_A"]
    assert uncited({"path_A": "x", "path_B": " ", "answer_A": "y"}, read_citations([true_citation(RNG)], ONE, TWO)) == [
        "answer_A"
    ]


ANALYSIS = {name: f"On {name}." for name in remark_names(WRITING)}


def reply(*reasons: str, quote: str | None = None) -> str:
    cited = true_citation(RNG)
    cited["quote"] = quote or cited["quote"]
    return text_of(7, 5, analysis=ANALYSIS, citations=[cited | {"reason": reason} for reason in reasons])


def test_a_plain_judge_may_cite_and_what_it_cites_is_checked():
    verdict, _ = judge(ScriptedAsk(reply("path_A", "answer_B")), pair=(ONE, TWO))
    assert isinstance(verdict, Judged)
    assert [(citation.reason, citation.found) for citation in verdict.citations] == [
        ("path_A", True),
        ("answer_B", True),
    ]
    forged, _ = judge(ScriptedAsk(reply("path_A", quote="never said")), pair=(ONE, TWO))
    assert isinstance(forged, Judged)
    assert [citation.found for citation in forged.citations] == [False]
    assert "citations" not in json.loads(judge(ScriptedAsk(text_of()), pair=(ONE, TWO))[0].model_dump_json())


def test_required_citations_are_asked_for_in_prompt_and_schema_and_only_then():
    asked = WRITING.model_copy(update={"require_citations": True})
    assert CITATION_NOTE in fixed_message(asked)
    assert '"citations": [' in fixed_message(asked)
    assert "citations" in schema(asked)["required"]
    assert "citation" not in fixed_message(WRITING)
    assert "citations" not in schema(WRITING)["properties"]
    assert prompt_fingerprint(asked) != prompt_fingerprint(WRITING)


def test_the_embedded_judge_cites_where_it_must():
    verdict, _ = judge(EmbeddedAsk(), pair=(ONE, TWO), require_citations=True)
    assert isinstance(verdict, Judged)
    assert uncited(ANALYSIS, verdict.citations) == []


@pytest.mark.parametrize(("replies", "ok"), [([False, True], True), ([True], True), ([False, False], False)])
def test_a_verdict_without_the_citations_required_fails_after_one_repair_turn(replies: list[bool], ok: bool):
    ask = ScriptedAsk(*(reply(*ANALYSIS) if good else reply("path_A") for good in replies))
    verdict, _ = judge(ask, pair=(ONE, TWO), require_citations=True)
    assert len(ask.prompts) == len(replies)
    assert isinstance(verdict, Judged if ok else Unjudged)
    if isinstance(verdict, Unjudged):
        assert verdict.failure.message.startswith("no citation of path_B, answer_A, answer_B stands where it points to")
    else:
        assert len(verdict.citations) == 4
