"""Where a rubric says `evidence: yes`, people see which claims of an answer stand in no tool output."""

import json

import pytest

import harness
from harness.core.rankings import Citation, GroupRanking, Match
from harness.report.summary.evidence import (
    CitationFigures,
    EvidenceFigures,
    citation_figures,
    citation_words,
    evidence_words,
)
from harness.report.summary.match_verdicts import CITES_NOTHING, marked_remarks
from tests.builders import a_judged
from tests.fuzz.attacks import Room
from tests.fuzz.attempts import attempt

pytestmark = pytest.mark.process

OUTPUTS = ["The depot took 4,310 kg in 2019 and 1,207 kg in 2020.", "Turnover rose by 12.5 % on 3 May 2020."]
ANSWERS = [
    "The depot took 5,517 kg in all. Turnover rose by 41 % on <b>2020-05-03</b>.",
    "The depot took 4,310 kg, “and nothing else ever happened”.",
]


def chat(answer: str, outputs: list[str]) -> list[dict[str, object]]:
    messages: list[dict[str, object]] = [{"role": "user", "content": "How did the depot do?"}]
    for number, output in enumerate(outputs):
        call = {
            "id": f"c{number}",
            "type": "function",
            "function": {"name": "search", "arguments": f'{{"n": {number}}}'},
        }
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": output})
    return [*messages, {"role": "assistant", "content": answer}]


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Room:
    """A room with a run of three imported rollouts, the last without a tool, judged with `evidence: yes`."""
    room = Room.make(tmp_path_factory.mktemp("evidence") / "room")
    chats = [*(chat(answer, OUTPUTS) for answer in ANSWERS), chat("It did well in 2021.", [])]
    lines = [{"query_id": "q", "id": f"r{n}", "messages": messages} for n, messages in enumerate(chats)]
    (room.work / "chats.jsonl").write_text("\n".join(map(json.dumps, lines)))
    rubric = (
        harness.text_of_rubric("writing").replace("name: writing", "name: own").replace("caps:", "evidence: yes\ncaps:")
    )
    (room.work / "own.md").write_text(rubric)
    assert attempt(("import", "chats.jsonl"), room.work, room.environ()).code == 0
    rescored = ("rescore", "--judge-model", "offline-features", "--rubric", "own.md", "--topology", "round_robin", "-q")
    assert attempt(rescored, room.work, room.environ()).code == 0
    return room


def printed(room: Room, *argv: str) -> str:
    outcome = attempt(argv, room.work, room.environ())
    assert outcome.code == 0, outcome.err_text
    return outcome.out_text


def test_why_names_the_claims_that_stand_in_no_tool_output(judged: Room):
    words = " ".join(printed(judged, "why", "0", "1").split())
    assert "Rollout 0: “41 %” stands in no tool output." in words
    assert "Rollout 1: “and nothing else ever happened” stands in no tool output." in words


def test_stats_count_claims_and_answers_that_were_not_checked(judged: Room):
    (ranking,) = json.loads(printed(judged, "stats", "--json"))["rankings"]
    assert ranking["evidence"] == {"answers": 2, "claims": 5, "derivable": 1, "unsupported": 2, "unchecked": 1}
    words = [(each.label, each.value) for each in evidence_words(EvidenceFigures(**ranking["evidence"]))]
    assert words == [("Unsupported claims", "2 of 5 (40 %)"), ("Not checked", "1")]
    assert "Unsupported claims" in printed(judged, "stats")


def test_a_frame_has_the_counts_only_where_they_are_asked_for(judged: Room):
    run = harness.open(runs_dir=judged.work / "runs")
    assert [(row["claims"], row["unsupported"]) for row in run.to_frame(evidence=True)] == [
        (3, 1),
        (2, 1),
        (None, None),
    ]
    assert "claims" not in run.to_frame()[0]
    assert harness.evidence_reward(run.rollouts()[0], run.queries[0]) == pytest.approx(2 / 3)


def test_the_page_underlines_claims_and_links_them_to_their_step(judged: Room):
    page = harness.open(runs_dir=judged.work / "runs").page.read_text("utf-8")
    assert '<a class="claim" href="#q1-r0-s1" title="derives from step 1">5,517 kg</a> in all' in page
    assert (
        '<span class="claim unsupported" title="stands in no tool output">41 %</span> on &lt;b&gt;<a class="claim"'
        in page
    )
    assert 'id="q1-r0-s1"' in page
    assert "1 of 3 claims that could be looked up stands in no tool output." in page
    assert "Claims were not looked up: the record has no tool output of this agent, or not all." in page


def test_reasons_that_cite_what_is_not_there_are_marked_and_counted():
    citations = [Citation(reason="path_A", side="A", step=1, quote="x", found=found) for found in (False, True)]
    analysis = {"path_A": "It searched.", "answer_A": "It is short."}
    forged, true = (
        a_judged(key, analysis=analysis, citations=(one,)) for key, one in zip("kl", citations, strict=True)
    )
    silent = a_judged("m", analysis=analysis)
    marked = f"It searched. {CITES_NOTHING}"
    assert [marked_remarks(verdict)["path_A"] for verdict in (forged, true, silent)] == [
        marked,
        "It searched.",
        "It searched.",
    ]
    verdicts = {"k": forged, "l": true, "m": silent}
    match = Match(
        round=1,
        a=0,
        b=1,
        verdicts=("k", "l", "m"),
        shown_first=(0, 1, 0),
        score_a=1,
        score_b=1,
        winner=None,
        flipped=False,
        inconsistent=False,
        scores=((1, 1),) * 3,
    )
    ranking = GroupRanking(
        query="q", topology="arena", estimator="pooled", status="complete", signal="ok", matches=(match,)
    )
    figures = citation_figures([ranking], verdicts.get)
    assert figures == CitationFigures(reasons=4, bare=3)
    assert citation_words(CitationFigures(4, 3)).value == "75 % of 4 reasons"
    assert citation_figures([ranking], {"m": silent}.get) is None
