"""Each `next:` line that resumes or judges does something when it is typed."""

import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.batch_server import BatchEndpoint, FakeBatch, Lines
from tests.cli.desk import Desk, by_model
from tests.fake_endpoint import Reaction, Refuse, Say, Seen, fair_judge

RUN = "run --agent poet.py --model m -n 3 --queries q.txt --judge-model judge --judge-concurrency 1".split()
PRICES = ("--price", "m=10/10", "--price", "judge=10/10")


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with BatchEndpoint().serving() as endpoint:
        made = Desk(tmp_path / "room", endpoint)
        endpoint.agent, endpoint.judge = by_model, fair_judge()
        (made.work / "q.txt").write_text("Why?\nHow?")
        yield made


def unanswered(batch: FakeBatch, lines: Lines) -> Lines:
    """Bring an error of the provider's in place of the first line's reply, each time."""
    refused = {"status_code": 500, "body": {"error": {"message": "oops"}}}
    first = min(line["custom_id"] for line in lines)
    return [{**line, "response": refused} if line["custom_id"] == first else line for line in lines]


def only(word: str, then: Reaction) -> Callable[[Seen], Reaction]:
    return lambda seen: then if word in seen.user else fair_judge()(seen) if seen.is_judge else by_model(seen)


def never_by_batch(desk: Desk) -> tuple[str, ...]:
    endpoint = desk.endpoint
    assert isinstance(endpoint, BatchEndpoint)
    endpoint.fate, endpoint.at_once = unanswered, True
    desk(*RUN, "--judge-batch")
    desk("resume")
    return ("resume",)


def judge_mumbles(desk: Desk) -> tuple[str, ...]:
    desk.endpoint.judge = only("Why", Say("nonsense"))
    return tuple(RUN)


def agent_fails(desk: Desk) -> tuple[str, ...]:
    desk.endpoint.agent = only("Why", Say("cut", finish="length"))
    return tuple(RUN)


def all_fail(desk: Desk) -> tuple[str, ...]:
    desk.endpoint.agent = lambda _: Say("cut", finish="length")
    return tuple(RUN)


def server_fails(desk: Desk) -> tuple[str, ...]:
    desk.endpoint.agent = only("How", Refuse(400, "no"))
    return tuple(RUN)


def rescored(desk: Desk) -> tuple[str, ...]:
    desk(*RUN)
    desk.endpoint.judge = only("Why", Say("nonsense"))
    return ("rescore", "--judge-model", "other")


STORIES: dict[str, Callable[[Desk], tuple[str, ...]]] = {
    "later": lambda _: (*RUN, "--topology", "none"),
    "max-cost": lambda _: (*RUN, *PRICES, "--max-cost", "0.02"),
    "max-cost-of-rollouts": lambda _: (*RUN, *PRICES, "--max-cost", "0.0001"),
    "never-by-batch": never_by_batch,
    "judge-mumbles": judge_mumbles,
    "agent-fails": agent_fails,
    "all-fail": all_fail,
    "server-fails": server_fails,
    "rescore": rescored,
}


@pytest.mark.few(4)
@pytest.mark.parametrize("story", STORIES)
def test_each_next_line_that_resumes_or_judges_changes_the_archive(desk: Desk, story: str):
    said = desk(*STORIES[story](desk))
    if story.startswith("max-cost"):  # what goes on is named once on each stream, with the run and a higher ceiling
        assert said.out_text.count("--max-cost 0.") == said.err_text.count("resume") == 1
        (shown,) = [line for line in desk("show").out_text.splitlines() if "resume" in line]
        assert "--max-cost USD" in shown
    lines = [line.removeprefix("next: ") for line in said.out_text.splitlines() if line.startswith("next: ")]
    typed = [shlex.split(line)[1:] for line in lines if not any(word.isupper() for word in line.split())]
    work = [words for words in typed if words[0] in {"resume", "rescore"}]
    assert work, said.out_text + said.err_text
    assert all("--max-cost" in words for words in work if story.startswith("max-cost")), lines
    if story == "all-fail":  # there is nothing to judge, but a failure to look at
        assert [words[0] for words in typed] == ["show", "resume"]
        assert "cut at the token limit" in desk(*typed[0]).out_text
    if story == "server-fails":  # while the server refuses the first call, nothing is begun
        desk.endpoint.agent = by_model
    (run,) = desk.folders()
    for words in work:
        before, asked = desk.bytes_of(run), len(desk.endpoint.requests)
        done = desk(*words)
        changed = {path for path, digest in desk.bytes_of(run).items() if before.get(path) != digest}
        kept = [path for path in changed if "/rollouts/" in path or "/verdicts/" in path]
        assert kept, (words, done.err_text)
        assert len(desk.endpoint.requests) > asked


def test_what_no_batch_asks_again_is_said_with_its_reason_and_the_remedy_works(desk: Desk):
    said = desk(*never_by_batch(desk))
    assert "1 question got no usable reply by batch, and no batch asks again (HTTP 500: " in said.err_text
    assert "--judge-now` asks at once" in said.err_text
    assert "next: harness resume" not in said.out_text
    (line,) = [line for line in said.out_text.splitlines() if line.endswith("--judge-now")]
    assert desk(*shlex.split(line)[2:]).code == 0
    assert "nothing to do" in desk("resume").out_text
