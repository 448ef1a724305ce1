"""`--judge-batch`: each verdict is bought once, whatever becomes of the batches, and reads like any other."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from harness.archive.batch_log import BatchLog
from harness.archive.reader import RunReader
from harness.archive.run_state import find_missing_work
from harness.core.errors import HarnessError, Refused, UsageError
from harness.core.progress import Silent
from harness.core.rankings import AnyVerdict
from harness.core.records import Query
from harness.core.settings_sources import load
from harness.pipeline.plan import RescoreOptions, prepare
from harness.pipeline.run_environment import RunEnvironment
from harness.pipeline.runs import RunResult, rescore_run, resume_run, run_queries
from harness.pipeline.stages import describe_batches
from harness.rollouts.loading import load_agent
from tests.batch_server import BatchEndpoint, FakeBatch, Lines
from tests.fake_endpoint import FakeEndpoint, Refuse, Say, Seen, fair_judge, list_judge

ASKED = [Query(id="q1", text="Why?"), Query(id="q2", text="How?")]
AGENT = """
from agents import Agent
agent = Agent(name="plain", instructions="Answer.")
"""


class Notes(Silent):
    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def note(self, text: str) -> None:
        self.said.append(text)


@pytest.fixture
def there() -> Iterator[BatchEndpoint]:
    with BatchEndpoint(agent=answers).serving() as served:
        assert isinstance(served, BatchEndpoint)
        yield served


def answers(seen: Seen) -> Say:
    """Answer by the seed alone: equal runs have equal transcripts."""
    return Say(f"Answer {seen.body.get('seed')} to {seen.user}")


class Shop:
    """Runs at an endpoint, in a folder of the test's own."""

    def __init__(self, at: FakeEndpoint, home: Path) -> None:
        self.environ = {"OPENAI_BASE_URL": at.base_url, "OPENAI_API_KEY": "sk-x", "HOME": str(home)}
        self.home, self.notes = home, Notes()
        (home / "plain.py").write_text(AGENT)
        self.agent = load_agent(f"{home / 'plain.py'}:agent", home)

    def run(self, asked: list[Query] = ASKED[:1], *, batch: bool = True, **settings: Any) -> RunResult:
        chosen = {"n": 4, "topology": "cyclic", "model": "m", "judge_label": "j", "runs_dir": self.home / "runs"}

        async def go() -> RunResult:
            prepared = await prepare(self.agent, load({**chosen, "judge_batch": batch, **settings}), self.environ)
            return await run_queries(prepared, asked, self._around())

        return anyio.run(go)

    def resume(self, run: RunResult, **changes: Any) -> RunResult | None:
        async def go() -> RunResult | None:
            return await resume_run(run.path, self.agent, self._around(), changes=changes)

        return anyio.run(go)

    def rescore(self, run: RunResult, *, free: bool = False, **changes: Any) -> RunResult:
        async def go() -> RunResult:
            return await rescore_run(run.path, changes, self._around(), RescoreOptions(free=free))

        return anyio.run(go)

    def to_the_end(self, at: BatchEndpoint, run: RunResult) -> RunResult:
        """Resume after each batch, as long as anything waits for one."""
        for _ in range(10):
            if not run.waiting:
                return run
            at.finish()
            run = self.resume(run) or run
        raise AssertionError(f"still waiting: {run.waiting}")

    def _around(self) -> RunEnvironment:
        return RunEnvironment(self.environ, progress=self.notes)


@pytest.fixture
def shop(there: BatchEndpoint, tmp_path: Path) -> Shop:
    return Shop(there, tmp_path)


def verdicts(run: RunResult) -> list[AnyVerdict]:
    with RunReader(run.path) as reader:
        return list(reader.verdicts())


def ranked(run: RunResult) -> Mapping[str, Any]:
    """Return what the newest ranking says, apart from what was bought when."""
    with RunReader(run.path) as reader:
        groups = list(reader.ranking(run.ranking_id).groups)
    return {g.query: g.model_dump(exclude={"judged", "reused", "judge_usage", "judge_usd", "basis"}) for g in groups}


def statuses(run: RunResult) -> set[str]:
    return {group["status"] for group in ranked(run).values()}


def plain(verdict: AnyVerdict) -> dict[str, Any]:
    """Return a verdict apart from times, prices and tier, and from the name of its reply, which has an id."""
    return verdict.model_dump(exclude={"started_at", "duration_s", "price_usd", "tier", "calls", "raw_replies"})


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("settings", "rounds"),
    [
        ({"topology": "cyclic"}, 1),
        ({"topology": "anchor"}, 1),
        ({"topology": "round_robin", "judge_repeats": 2}, 1),
        ({"topology": "arena"}, 3),
        ({"judge": "ruler", "topology": "arena"}, 1),
        ({"api": "responses"}, 1),
    ],
)
def test_records_and_ranks_are_those_of_the_synchronous_path(
    there: BatchEndpoint, shop: Shop, settings: dict[str, Any], rounds: int
):
    if settings.get("judge") == "ruler":
        there.judge = list_judge()
    now = shop.run(batch=False, **settings)
    run = shop.run(**settings)
    assert run.waiting
    by_batch = shop.to_the_end(there, run)
    assert sorted(map(plain, verdicts(by_batch)), key=json.dumps) == sorted(map(plain, verdicts(now)), key=json.dumps)
    assert ranked(by_batch) == ranked(now)
    assert {verdict.tier for verdict in verdicts(by_batch)} == {"batch"}
    assert len(there.batches) <= rounds
    assert len(there.asked) == len(set(there.asked)) == len(verdicts(now))
    assert shop.resume(by_batch) is None


def half(batch: FakeBatch, lines: Lines) -> Lines:
    """End with half of the results; the others say that they are too late."""
    batch.status = "expired"
    late = {"code": "batch_expired", "message": "This request could not be executed before the batch expired."}
    return [line if n % 2 else {**line, "response": None, "error": late} for n, line in enumerate(lines)]


def without_one(batch: FakeBatch, lines: Lines) -> Lines:
    return lines[1:]


def one_twice(batch: FakeBatch, lines: Lines) -> Lines:
    """Bring a line twice, the second time with other marks."""
    other = json.loads(json.dumps(lines[0]).replace("9", "1"))
    return [*lines, other, lines[1], {"custom_id": "f" * 64, "response": lines[0]["response"]}, {"nothing": 1}]


def failed(batch: FakeBatch, lines: Lines) -> Lines:
    batch.status = "failed"
    return []


def one_error(batch: FakeBatch, lines: Lines) -> Lines:
    refused = {"status_code": 500, "body": {"error": {"message": "oops"}}}
    return [{**lines[0], "response": refused}, *lines[1:]]


@pytest.mark.parametrize("fate", [half, without_one, one_twice, failed, one_error])
def test_what_a_batch_did_not_bring_is_asked_for_once_more(there: BatchEndpoint, shop: Shop, fate: Any):
    run, usual = shop.run(), there.fate
    there.fate = fate
    there.finish()
    there.fate = usual
    done = shop.to_the_end(there, shop.resume(run) or run)
    keys = [verdict.key for verdict in verdicts(done)]
    assert len(keys) == len(set(keys)) == 6
    assert len(there.batches) <= 2
    assert statuses(done) == {"complete"}


@pytest.mark.few(1)
@pytest.mark.parametrize("fate", [half, failed])
def test_what_a_batch_that_was_cut_off_never_asked_is_asked_again(there: BatchEndpoint, shop: Shop, fate: Any):
    usual, there.fate, run = there.fate, fate, shop.run()
    for _ in range(3):
        there.finish()
        run = shop.resume(run) or run
    there.fate = usual
    done = shop.to_the_end(there, run)
    assert (len(there.batches), statuses(done)) == (4, {"complete"})


@pytest.mark.few(1)
@pytest.mark.parametrize("fate", [without_one, one_error])
def test_what_never_comes_stays_open_until_it_is_asked_for_without_a_batch(there: BatchEndpoint, shop: Shop, fate: Any):
    there.fate = fate
    done = shop.to_the_end(there, shop.run())
    assert (len(there.batches), "incomplete" in statuses(done)) == (2, True)
    again = shop.resume(done)
    assert again
    assert (again.waiting, len(there.batches)) == (None, 2)
    bought = shop.rescore(done, judge_batch=False)
    assert (bought.waiting, statuses(bought)) == (None, {"complete"})
    assert sorted(key for key in there.asked) == sorted(
        [*{v.key for v in verdicts(bought)}, *there.batches["batch_4"].keys]
    )


def test_a_batch_that_is_gone_is_asked_for_once_more(there: BatchEndpoint, shop: Shop):
    run = shop.run()
    lost = there.batches.pop("batch_2")
    again = shop.resume(run)
    assert again
    assert again.waiting
    assert "gone" in shop.notes.said[-1]
    assert sorted(there.asked) == sorted(lost.keys)
    assert statuses(shop.to_the_end(there, again)) == {"complete"}


def test_a_reply_that_needs_repair_goes_into_the_next_batch_with_the_complaint(there: BatchEndpoint, shop: Shop):
    usual, broken = fair_judge(), set[str]()

    def mumbling(seen: Seen) -> Any:
        first = len(broken) < 2 and len(seen.items) == 1 and seen.user not in broken
        broken.update([seen.user] if first else [])
        return Say("well ...") if first else usual(seen)

    there.judge = mumbling
    done = shop.to_the_end(there, shop.run())
    assert [len(batch.asked) for batch in there.batches.values()] == [6, 2]
    assert all(len(line["body"]["messages"]) == 4 for line in there.batches["batch_4"].asked)
    assert sorted(getattr(verdict, "repaired", False) for verdict in verdicts(done)) == [False] * 4 + [True] * 2
    assert statuses(done) == {"complete"}


def test_a_form_that_the_endpoint_refuses_is_learnt_by_one_batch_for_all(there: BatchEndpoint, shop: Shop):
    usual = fair_judge()

    def old(seen: Seen) -> Any:
        form = seen.body.get("response_format", {}).get("type")
        if "temperature" in seen.body:
            return Refuse(400, "Unsupported value", param="temperature")
        return Refuse(400, "response_format json_schema is not supported") if form == "json_schema" else usual(seen)

    there.judge = old
    done = shop.to_the_end(there, shop.run())
    assert {verdict.form for verdict in verdicts(done)} == {"json_object"}
    assert (len(there.batches), statuses(done)) == (3, {"complete"})


def test_where_there_are_no_batches_one_question_tells_and_nothing_is_left(endpoint: FakeEndpoint, tmp_path: Path):
    shop = Shop(endpoint, tmp_path)
    with pytest.raises(Refused, match="has no batches"):
        shop.run()
    assert endpoint.requests == []
    assert not [*(tmp_path / "runs").glob("*")]


def test_the_embedded_judge_takes_no_batch(shop: Shop):
    with pytest.raises(UsageError, match="the embedded judge has no batches"):
        shop.run(judge_model="offline-features")


@pytest.mark.parametrize("lists", [True, False])
def test_a_batch_whose_id_was_never_noted_is_found_or_said_to_be_perhaps_bought(
    there: BatchEndpoint, shop: Shop, lists: bool
):
    def drop(_: FakeBatch) -> None:
        raise ConnectionError

    there.lists, there.on_create = lists, drop
    with pytest.raises(HarnessError, match="may have been bought"):
        shop.run()
    there.on_create = lambda _: None
    (folder,) = (shop.home / "runs").iterdir()
    run = shop.resume(RunResult(folder, ""))
    assert run
    assert any("may have been bought" in note for note in shop.notes.said) is not lists
    done = shop.to_the_end(there, run)
    assert (len(there.batches), statuses(done)) == (1 if lists else 2, {"complete"})
    assert len(verdicts(done)) == 6


def test_a_ceiling_holds_for_what_is_handed_in(there: BatchEndpoint, shop: Shop):
    run = shop.run(ASKED, prices=("m=0/0", "dear=10/10"), judge_model="dear", max_cost=0.1)
    assert run.stopped
    assert 0 < len(there.asked) < 12
    there.finish()
    more = shop.resume(run, max_cost=10.0)
    assert more
    assert len(there.asked) == len(set(there.asked)) == 12


def test_while_nothing_is_over_resume_says_how_long_the_provider_has_it_and_writes_no_ranking(
    there: BatchEndpoint, shop: Shop
):
    run = shop.run()
    before = [*(run.path / "rankings").iterdir()]
    again = shop.resume(run)
    assert again
    assert "0 done (in_progress), with the provider for" in (again.waiting or "")
    assert [*(run.path / "rankings").iterdir()] == before
    with RunReader(run.path) as reader:
        assert not find_missing_work(reader).nothing
    assert [len(batch.made.keys) for batch in BatchLog(run.path).batches.values()] == [6]


def test_rescore_by_batch_goes_on_under_its_own_settings(there: BatchEndpoint, shop: Shop):
    run = shop.run(batch=False)
    again = shop.rescore(run, judge_batch=True, judge_label="other", topology="round_robin")
    done = shop.to_the_end(there, again)
    assert {v.judge for v in verdicts(done) if v.tier} == {"other"}
    assert statuses(done) == {"complete"}


def test_a_free_rescore_asks_nobody_and_ranks_by_what_is_there(there: BatchEndpoint, shop: Shop):
    waiting = shop.run(topology="arena")
    before = len(there.requests), len(there.looked_at)
    early = shop.rescore(waiting, free=True)
    assert (early.waiting, statuses(early)) == (None, {"incomplete"})
    assert (len(there.requests), len(there.looked_at)) == before
    done = shop.to_the_end(there, waiting)
    before = len(there.requests), len(there.looked_at)
    free = shop.rescore(done, free=True)
    assert (free.waiting, ranked(free)) == (None, ranked(done))
    assert (len(there.requests), len(there.looked_at)) == before


@pytest.mark.parametrize(
    ("topology", "said"), [("arena", "arena needs up to 4 batches"), ("cyclic", None), ("round_robin", None)]
)
def test_a_knockout_says_how_many_batches_it_needs_and_offers_cyclic(topology: str, said: str | None):
    words = describe_batches(load({"topology": topology, "judge_batch": True}))
    assert (words or "").startswith(f"by batch: {said}" if said else "")
    assert ("--topology cyclic needs 1" in (words or "")) is bool(said)
