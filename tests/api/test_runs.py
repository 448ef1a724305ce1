"""The main job in Python: `harness.run`, `resume`, `rescore`, `replay`, `validate`, and `Run`."""

import json
import re
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio
import pytest
from agents import Agent

import harness
from tests.conftest import ROOT
from tests.fake_endpoint import FakeEndpoint, Say
from tests.nursery import Nursery

pytestmark = pytest.mark.anyio

QUERIES: list[Any] = [
    {"id": "lisp", "query": "What is Lisp?", "reference": "A language.", "difficulty": 1},
    {"id": "sky", "query": "Why is the sky blue?", "difficulty": "hard"},
]
_IDS = re.compile(
    r"\d{8}T\d{6}-\w+(-\w{6})?|\d{4}-\d\d-\d\d[ T][\d:.]+(Z|\+00:00)?( UTC)?|[\d.]+ (s|min)\b"
    r"|\d{1,2} \w+ \d{4}, \d\d:\d\d UTC"
)
_VARIES = {"crc", "id", "at", "created_at", "started_at", "duration_s", "run", "runs_dir", "basis"}


def settled(value: Any) -> Any:
    """Return a record without ids and times."""
    if isinstance(value, dict):
        return {name: settled(member) for name, member in value.items() if name not in _VARIES}
    return [settled(member) for member in value] if isinstance(value, list) else value


def contents(run: Path) -> dict[str, Any]:
    """Return what a run holds, by folder or file, less ids and times."""
    held: dict[str, Any] = {"report.html": _IDS.sub("", (run / "report.html").read_text("utf-8"))}
    for path in (run / "run.json", *run.rglob("*.jsonl")):
        name = path.name if path.parent == run else path.parent.name
        texts = [path.read_text("utf-8")] if path.parent == run else path.read_text("utf-8").splitlines()
        held.setdefault(name, []).extend(json.dumps(settled(json.loads(text)), sort_keys=True) for text in texts)
    return {name: value if isinstance(value, str) else sorted(value) for name, value in held.items()}


async def test_a_run_and_a_rescoring_from_python_leave_what_the_commands_leave_but_for_ids_and_times(
    nursery: Nursery, tmp_path: Path
):
    (tmp_path / "q.jsonl").write_text("\n".join(map(json.dumps, QUERIES)), "utf-8")
    options = ["-n", "4", "--topology", "cyclic", "--redact", "McCarthy", "--seed", "7"]
    command = nursery.start(["run", "--agent", "search", "--queries", "q.jsonl", *options], tmp_path)
    made = await harness.run("search", QUERIES, n=4, topology="cyclic", redact=["McCarthy"], seed=7, runs_dir=tmp_path)
    done = nursery.wait(command)
    assert done.code == 0, done.err
    (by_command,) = harness.runs(tmp_path / "runs")
    assert contents(made.path) == contents(by_command)
    command = nursery.start(["rescore", "--topology", "round_robin", "--rubric", "research"], tmp_path)
    await harness.rescore(made, topology="round_robin", rubric="research")
    assert nursery.wait(command).code == 0
    assert contents(made.path) == contents(by_command)
    assert len(harness.open(by_command).rankings) == 2


async def offline(tmp_path: Path, queries: Any = QUERIES, **settings: Any) -> harness.Run:
    chosen: Any = {"n": 3, "offline": True, "runs_dir": tmp_path} | settings
    return await harness.run("search", queries, **chosen)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, user_folder: Path) -> harness.Run:
    """A run that its tests leave as it is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(user_folder / "state"))
        patch.setenv("XDG_CACHE_HOME", str(user_folder / "cache"))
        return harness.run_sync("search", QUERIES, n=3, offline=True, runs_dir=tmp_path_factory.mktemp("runs"))


async def test_a_run_gives_its_queries_groups_rollouts_and_rankings(run: harness.Run):
    folder = run.path.parent
    again = harness.open("last", folder)
    for opened in (run, again, harness.open(run.path), harness.open(run.id, folder), harness.open(run)):
        assert (opened.id, opened.path) == (run.id, run.path)
        assert [q.id for q in opened.queries] == ["lisp", "sky"]
        assert [len(group.rollouts) for group in opened.groups()] == [3, 3]
        assert opened.ranking().head.id == opened.ranking(run.ranking_id).head.id
    sky = again.queries[1]
    assert again.rollouts(sky) == again.rollouts("sky") == again.rollouts(sky.text)
    assert (run.stopped, run.given_up, run.spent, again.ranking_id) == (None, None, 0.0, None)
    assert run.page.is_file()
    with pytest.raises(harness.UsageError, match="did you mean 'lisp'"):
        run.rollouts("lips")
    with pytest.raises(harness.UsageError, match="2 queries: name one, e"):
        run.rollouts()


async def test_a_frame_has_a_flat_row_a_rollout_with_the_same_keys_and_one_kind_of_value_a_column(run: harness.Run):
    rows = run.to_frame()
    assert [(row["query_id"], row["index"]) for row in rows] == [(q, i) for q in ("lisp", "sky") for i in range(3)]
    assert {tuple(row) for row in rows} == {tuple(rows[0])}
    assert all(isinstance(value, str | int | float | bool | None) for row in rows for value in row.values())
    assert {row["metadata.difficulty"] for row in rows} == {"1", "hard"}
    (lisp,) = (group for group in run.ranking().groups if group.query == "lisp")
    places = {place.index: place.rank for place in lisp.rollouts}
    assert [row["rank"] for row in rows[:3]] == [places[i] for i in range(3)]


async def test_rescore_judges_again_beside_the_ranking_that_was_there_and_quote_says_what_that_takes(
    run: harness.Run, tmp_path: Path
):
    copy = harness.open(Path(shutil.copytree(run.path, tmp_path / run.id)))
    first = run.ranking().head.id
    quoted = await harness.quote(copy, topology="round_robin")
    again = await harness.rescore("last", topology="round_robin", runs_dir=tmp_path)
    judged = sum(group.judged for group in again.ranking().groups)
    assert quoted.bought == (judged, judged)
    assert [ranking.head.id for ranking in again.rankings] == [first, again.ranking_id]
    assert again.ranking().head.settings["topology"] == "round_robin"
    assert again.to_frame(first) == run.to_frame()
    assert (await harness.rescore(copy, reuse=[again], free=True, topology="round_robin")).ranking().finished


async def test_a_cancelled_run_is_finished_by_resume_and_a_finished_one_costs_nothing(tmp_path: Path):
    seen: list[Path] = []

    class Cancelling(harness.Silent):
        def opened(self, folder: Path) -> None:
            seen.append(folder)

        def kept(self, *_: Any, **__: Any) -> None:
            scope.cancel()

    with anyio.CancelScope() as scope:
        await harness.run("search", QUERIES, n=3, offline=True, runs_dir=tmp_path, progress=Cancelling())
    assert scope.cancelled_caught
    resumed = await harness.resume(runs_dir=tmp_path)
    assert resumed.path == seen[0]
    assert [r.status for group in resumed.groups() for r in group.rollouts] == ["ok"] * 6
    finished = await harness.resume(resumed)
    assert (finished.path, finished.ranking_id) == (resumed.path, None)


async def test_replay_and_validate_look_at_a_run_and_change_nothing(run: harness.Run):
    before = contents(run.path)
    replayed = await harness.replay(run)
    assert [(r.query, r.index, r.divergence) for r in replayed] == [
        (query, i, None) for query in ("lisp", "sky") for i in range(3)
    ]
    assert (await harness.validate(run)).damaged == 0
    assert (await harness.validate("last", runs_dir=run.path.parent)).findings == ()
    assert contents(run.path) == before


async def test_trajectories_made_elsewhere_are_imported_and_judged(tmp_path: Path):
    chats = [
        [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": text}] for text in ("It is.", "No.")
    ]
    (tmp_path / "t.jsonl").write_text("\n".join(json.dumps({"messages": chat}) for chat in chats), "utf-8")
    run = harness.import_run(tmp_path / "t.jsonl", runs_dir=tmp_path)
    assert {row["rank"] for row in run.to_frame()} == {None}
    judged = await harness.rescore(run, judge_model="offline-features")
    assert {row["index"] for row in judged.to_frame() if row["rank"] is not None} == {0, 1}


@pytest.mark.parametrize(
    ("queries", "ids"),
    [
        ("Why?", 1),
        (harness.Query(id="one", text="Why?"), ["one"]),
        ({"question": "Why?", "id": "x"}, ["x"]),
        (({"query": f"{n}?", "id": f"{n}"} for n in range(3)), ["0", "1", "2"]),
        (None, 1),
    ],
    ids=["text", "record", "mapping", "iterator", "none"],
)
async def test_queries_are_one_or_many_in_any_form(tmp_path: Path, queries: Any, ids: Any):
    run = await offline(tmp_path, queries, n=1)
    assert len(run.queries) == ids if isinstance(ids, int) else sorted(q.id for q in run.queries) == ids


@pytest.mark.parametrize(
    ("queries", "fault"),
    [
        (["Why?", "Why?"], "query 1: the query id .* stands there twice"),
        (["Why?", " "], "query 1: the query is empty"),
        ([{"text": "Why?", "when": object()}], "query 0: the query holds something that is no JSON"),
        ([3], "query 0: a query is a text, a Query or a mapping, not a int"),
        ([{"query": ""}], "query 0: no text under"),
        (Path("none.jsonl"), "none.jsonl"),
    ],
    ids=["twice", "blank", "no JSON", "a number", "no text", "no file"],
)
async def test_queries_that_cannot_be_used_are_refused_before_there_is_a_run(tmp_path: Path, queries: Any, fault: str):
    with pytest.raises(harness.UsageError, match=fault):
        await offline(tmp_path, queries)
    assert not list(tmp_path.iterdir())  # noqa: ASYNC240


async def test_an_agent_object_a_builder_and_a_module_with_hooks_run_on_an_endpoint(
    tmp_path: Path, endpoint: FakeEndpoint
):
    endpoint.agent = lambda _: Say("Because.")
    module = ModuleType("of_mine")
    agent = Agent(name="mine", model="m")
    module.__dict__.update(agent=agent, reward=lambda rollout, query: float(query.text == "Why?"))
    for given, verified in ((agent, None), (lambda: agent, None), (module, 1.0)):
        run = await harness.run(
            given, "Why?", n=2, base_url=endpoint.base_url, runs_dir=tmp_path, judge_model="j", max_turns=3
        )
        assert [row["answer"] for row in run.to_frame()] == ["Because."] * 2
        assert {row["verified"] for row in run.to_frame()} == {verified}
        assert run.info.settings["max_turns"] == 3
        assert (await harness.resume(run, agent)).ranking_id is None


async def test_the_columns_of_the_frame_are_those_that_the_docs_list(tmp_path: Path):
    messages = [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": "Because."}]
    (tmp_path / "q.jsonl").write_text(json.dumps({"messages": messages, "metadata": {"KEY": 1}}), "utf-8")
    imported = harness.import_run(tmp_path / "q.jsonl", runs_dir=tmp_path / "runs").to_frame()[0]
    made = (await offline(tmp_path, [{"query": "Why?", "KEY": 1}])).to_frame()[0]
    page = (ROOT / "docs" / "python.md").read_text("utf-8")
    table = page.partition("| columns | what they hold |")[2].partition("\n\n")[0]
    listed = [name for row in table.splitlines()[2:] for name in re.findall(r"`([^`]+)`", row.split("|")[1])]
    assert sorted({*imported, *made}) == sorted(listed)


def test_the_sync_twins_make_and_read_a_run_without_a_loop(tmp_path: Path):
    run = harness.run_sync("search", "What is Lisp?", n=2, offline=True, runs_dir=tmp_path)
    assert harness.rescore_sync(run, estimator="margins").ranking().head.settings["estimator"] == "margins"
    assert not harness.validate_sync(run).findings
    assert [r.divergence for r in harness.replay_sync(run)] == [None, None]


async def test_a_run_that_is_not_there_is_one_error_that_names_what_to_call(tmp_path: Path):
    with pytest.raises(harness.UsageError, match=r"make one with `harness\.run\(agent='search'\)`$"):
        harness.open("last", tmp_path)
    run = await offline(tmp_path, "Why?", n=1, topology="none")
    with pytest.raises(harness.UsageError, match=r"`harness\.runs\(\)` lists them$"):
        harness.open("1999", tmp_path)
    with pytest.raises(harness.UsageError, match="has no ranking 'x'; there are: "):
        run.ranking("x")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n": 0}, "^n=0: should be greater"),
        ({"budget": 3, "topology": "swiss"}, r"^budget=3 with topology='swiss': "),
        ({"judge": "ruler", "topology": "none"}, r"^topology='none' with judge='ruler'.*give topology='arena'$"),
        ({"rubric": "none.md"}, r"^rubric='none.md': cannot be read"),
        ({"judge_model": ["a", "a"], "judge_base_url": "http://localhost:1"}, "^judge_model: a@localhost:1 sits"),
        ({"base_url": "nope"}, "^base_url='nope' "),
        ({"corpus": "nowhere"}, "^corpus='nowhere': no such folder"),
    ],
    ids=["bound", "budget", "ruler", "rubric", "jury", "address", "corpus"],
)
async def test_messages_name_arguments_and_no_options(tmp_path: Path, settings: Any, message: str):
    with pytest.raises(harness.UsageError, match=message) as refused:
        await offline(tmp_path, "Why?", **{"offline": "corpus" in settings} | settings)
    assert not re.search(r"(?<!run )--[a-z]", str(refused.value))
