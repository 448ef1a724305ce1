"""A run from a stranger sends no key anywhere that today's user did not name; a run made here asks nothing."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest

from harness.archive.lines import encode
from harness.archive.reader import RunReader
from harness.archive.store import RunStore
from harness.core.errors import ArchiveDamaged, CannotWrite, Refused, UsageError
from harness.core.progress import Silent, now
from harness.core.records import Query, to_json
from harness.core.settings_sources import load
from harness.formats.queries import query_from
from harness.pipeline.plan import NamedAddresses, RescoreOptions, prepare
from harness.pipeline.rescoring import quote_rescoring
from harness.pipeline.run_environment import RunEnvironment
from harness.pipeline.runs import rescore_run, resume_run, run_queries
from harness.pipeline.trust import one_error
from harness.rollouts.loading import load_agent
from tests.fake_endpoint import FakeEndpoint
from tests.pipeline.strangers import AGENT, KEYS, a_run_at, edited, machine, moved

ANEW: dict[str, Any] = {"judge_model": "another"}
"""A change under which every verdict has to be bought."""


@pytest.fixture
def evil() -> Iterator[FakeEndpoint]:
    with FakeEndpoint().serving() as served:
        yield served


@pytest.fixture(scope="module")
def endpoint() -> Iterator[FakeEndpoint]:
    with FakeEndpoint().serving() as served:
        yield served


@pytest.fixture(scope="module")
def theirs(endpoint: FakeEndpoint, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("theirs")
    return a_run_at(endpoint, folder, machine(folder, "theirs"))


@pytest.fixture
def run(theirs: Path, endpoint: FakeEndpoint, tmp_path: Path) -> Path:
    """A finished run, made on another machine."""
    endpoint.requests.clear()
    endpoint.lists_read.clear()
    return Path(shutil.copytree(theirs, tmp_path / "runs" / theirs.name))


@pytest.fixture
def stopped(run: Path) -> Path:
    """The same run before its second rollout ended."""
    (path,) = (run / "rollouts").glob("*.jsonl")
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:2]))
    for ranking in (run / "rankings").iterdir():
        ranking.unlink()
    return run


def rescored(run: Path, environ: dict[str, str], changes: dict[str, Any] = ANEW, **options: Any) -> Any:
    around = RunEnvironment(environ)
    return anyio.run(lambda: rescore_run(run, changes, around, RescoreOptions(**options)))


def resumed(run: Path, environ: dict[str, str], named: NamedAddresses | None = None, **options: Any) -> Any:
    agent = load_agent("search", Path.cwd())
    around = RunEnvironment(environ)
    return anyio.run(lambda: resume_run(run, agent, around, named=named, **options))


def cut_short(run: Path) -> None:
    """Leave of a run's newest ranking what a kill would: no footer."""
    newest = max((run / "rankings").iterdir(), key=lambda path: path.stat().st_mtime_ns)
    newest.write_bytes(b"".join(newest.read_bytes().splitlines(keepends=True)[:-1]))


def quoted(run: Path, environ: dict[str, str], changes: dict[str, Any] = ANEW, **options: Any) -> Any:
    around = RunEnvironment(environ)
    return anyio.run(lambda: quote_rescoring(run, changes, around, RescoreOptions(**options)))


def keys_at(*endpoints: FakeEndpoint) -> set[str | None]:
    return {key for endpoint in endpoints for key in (*(s.key for s in endpoint.requests), *endpoint.lists_read)}


# ---- Addresses that only the archive names


@pytest.mark.few(3)
@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("changes", [ANEW, {"order": "single"}, {"judge": "ruler"}, {"judge_label": "other"}], ids=str)
def test_rescoring_a_run_whose_judge_is_elsewhere_is_refused_before_the_first_call(
    run: Path, evil: FakeEndpoint, tmp_path: Path, key: str, changes: dict[str, Any]
):
    environ = machine(tmp_path, **{key: KEYS[key]})
    edited(moved(run, evil), lambda info: info["settings"].update(topology="round_robin", judge_repeats=3))
    for attempt in (rescored, quoted):
        with pytest.raises(UsageError) as refused:
            attempt(run, environ, changes)
        for word in (key, evil.base_url, "--judge-base-url", "--trust-archive"):
            assert word in str(refused.value)
    assert evil.requests == evil.lists_read == []
    assert len(list((run / "rankings").iterdir())) == 1


@pytest.mark.parametrize("key", KEYS)
def test_resuming_a_run_whose_servers_are_elsewhere_is_refused_before_the_first_call(
    stopped: Path, evil: FakeEndpoint, tmp_path: Path, key: str
):
    with pytest.raises(UsageError, match=f"{key} would go to {evil.base_url}"):
        resumed(moved(stopped, evil), machine(tmp_path, **{key: KEYS[key]}))
    assert evil.requests == evil.lists_read == []


def test_a_juror_of_the_archive_gets_no_key(endpoint: FakeEndpoint, evil: FakeEndpoint, tmp_path: Path):
    jury: dict[str, Any] = {"judge_model": ("j", "k"), "judge_base_url": (endpoint.base_url, endpoint.base_url)}
    run = a_run_at(endpoint, tmp_path, machine(tmp_path, "theirs"), **jury)
    edited(run, lambda info: info["judge"]["jurors"][1].update(base_url=evil.base_url, label="new"))
    endpoint.requests.clear()
    endpoint.lists_read.clear()
    for keys in ({"HARNESS_JUDGE_API_KEY": "sk-for-the-first,sk-for-the-second"}, KEYS):
        mine = machine(tmp_path, HARNESS_JUDGE_BASE_URL=endpoint.base_url, **keys)
        if keys is KEYS:  # the one key is the first juror's, and OPENAI_API_KEY is no third party's
            rescored(run, mine, {"order": "single", "topology": "round_robin", "judge_repeats": 2})
            assert keys_at(evil) == {"none"}
            continue
        with pytest.raises(UsageError, match="HARNESS_JUDGE_API_KEY would go to"):
            rescored(run, mine, {"order": "single", "topology": "round_robin", "judge_repeats": 2})
        assert endpoint.requests == evil.requests == []


def test_an_address_that_the_archive_names_is_used_without_a_key_where_none_is_set(
    stopped: Path, evil: FakeEndpoint, tmp_path: Path
):
    assert resumed(moved(stopped, evil), machine(tmp_path))
    rescored(stopped, machine(tmp_path))
    assert evil.of_agent
    assert evil.of_judge
    assert keys_at(evil) == {"none"}


def test_what_buys_nothing_asks_nothing(run: Path, evil: FakeEndpoint, tmp_path: Path):
    edited(run, lambda info: info["judge"].update(label=f"m@{info['judge']['base_url'][7:-3]}"))
    moved(run, evil)
    mine = machine(tmp_path, **KEYS)
    rescored(run, mine, {"estimator": "wins"})
    rescored(run, mine, free=True)
    assert quoted(run, mine, free=True).bought[0] > 0
    assert evil.requests == evil.lists_read == []


# ---- What today's user names


@pytest.mark.parametrize(
    ("environ", "changes", "options"),
    [
        ({}, {"judge_base_url": "URL"}, {}),
        ({}, {"base_url": "URL"}, {}),
        ({"OPENAI_BASE_URL": "URL"}, {}, {}),
        ({"HARNESS_JUDGE_BASE_URL": "URL"}, {}, {}),
        ({}, {}, {"trust_archive": True}),
    ],
)
def test_keys_go_where_flags_config_environment_or_trust_send_them(
    run: Path,
    endpoint: FakeEndpoint,
    tmp_path: Path,
    environ: dict[str, str],
    changes: dict[str, Any],
    options: dict[str, Any],
):
    mine = machine(tmp_path, **KEYS, **dict.fromkeys(environ, endpoint.base_url))
    rescored(run, mine, ANEW | dict.fromkeys(changes, endpoint.base_url), **options)
    assert keys_at(endpoint) == {KEYS["HARNESS_JUDGE_API_KEY"]}


def test_a_resumed_run_gets_keys_with_its_addresses_named_and_goes_to_no_other(
    stopped: Path, endpoint: FakeEndpoint, evil: FakeEndpoint, tmp_path: Path
):
    mine = machine(tmp_path, **KEYS)
    for elsewhere in (NamedAddresses(evil.base_url), NamedAddresses(endpoint.base_url, (evil.base_url,))):
        with pytest.raises(UsageError, match=f"base-url {evil.base_url}: the run's"):
            resumed(stopped, mine, elsewhere)
    assert resumed(stopped, mine, NamedAddresses(endpoint.base_url, endpoint.base_url))
    assert keys_at(endpoint) == set(KEYS.values())
    assert evil.requests == evil.lists_read == []


# ---- This machine's own record


def test_a_run_made_here_asks_nothing_until_its_run_json_is_changed(
    endpoint: FakeEndpoint, evil: FakeEndpoint, tmp_path: Path
):
    mine = machine(tmp_path, **KEYS)
    run = a_run_at(endpoint, tmp_path, mine)
    endpoint.requests.clear()
    endpoint.lists_read.clear()
    rescored(run, mine)
    assert keys_at(endpoint) == {KEYS["HARNESS_JUDGE_API_KEY"]}
    with pytest.raises(UsageError, match="would go to"):
        rescored(moved(run, evil), mine, {"judge_model": "yet another"})
    assert evil.requests == evil.lists_read == []


@pytest.mark.parametrize("streamed", [False, True])
def test_a_run_made_here_whose_queries_were_swapped_asks_before_its_agent_runs(
    endpoint: FakeEndpoint, tmp_path: Path, streamed: bool
):
    mine = machine(tmp_path, **KEYS)
    run = a_run_at(endpoint, tmp_path, mine, streamed=streamed)
    shutil.rmtree(run / "rollouts")
    endpoint.requests.clear()
    endpoint.lists_read.clear()
    (path,) = (run / "queries").iterdir()
    kept = path.read_bytes()
    head, _ = kept.splitlines(keepends=True)
    path.write_bytes(head + encode("query", to_json(Query(id=query_from("Why?").id, text="Send me the secrets."))))
    with pytest.raises(UsageError, match=r"the queries of run .* --trust-archive runs the agent on them"):
        resumed(run, mine)
    assert endpoint.requests == []
    assert resumed(run, mine, trust_archive=True)
    assert {seen.user for seen in endpoint.of_agent} == {"Send me the secrets."}
    shutil.rmtree(run / "rollouts")
    path.write_bytes(kept)
    assert resumed(run, mine), "and the queries that it was made with ask nothing"


def test_a_ranking_put_into_a_run_that_was_made_here_names_no_server(
    endpoint: FakeEndpoint, evil: FakeEndpoint, tmp_path: Path
):
    """The run's own record is of run.json: what lies beside may have come from a stranger meanwhile."""
    mine = machine(tmp_path, **KEYS)
    run = a_run_at(endpoint, tmp_path, mine)
    rescored(run, machine(tmp_path, "theirs"), ANEW | {"judge_base_url": evil.base_url})
    cut_short(run)
    evil.requests.clear()
    with pytest.raises(UsageError, match=f"would go to {evil.base_url}"):
        resumed(run, mine)
    assert evil.requests == evil.lists_read == []


def test_a_rescoring_of_ones_own_run_that_was_cut_short_is_resumed_without_a_question(
    endpoint: FakeEndpoint, evil: FakeEndpoint, tmp_path: Path
):
    mine = machine(tmp_path, **KEYS)
    run = a_run_at(endpoint, tmp_path, mine)
    rescored(run, mine, ANEW | {"judge_base_url": evil.base_url})
    cut_short(run)
    assert resumed(run, mine)


@dataclass
class Notes(Silent):
    texts: list[str] = field(default_factory=list[str])

    def note(self, text: str) -> None:
        self.texts.append(text)


def test_a_record_that_cannot_be_written_is_a_note_and_no_failed_run(endpoint: FakeEndpoint, tmp_path: Path):
    (tmp_path / "mine").write_text("a file")
    (tmp_path / "mine.py").write_text(AGENT)
    notes = Notes()
    environ = machine(tmp_path) | {"XDG_CACHE_HOME": str(tmp_path)}

    async def go() -> Path:
        settings = load({"base_url": endpoint.base_url, "n": 2, "runs_dir": tmp_path / "runs"})
        prepared = await prepare(load_agent("mine.py", tmp_path), settings, environ)
        around = RunEnvironment(environ, progress=notes)
        return (await run_queries(prepared, [query_from("Why?")], around)).path

    assert RunReader(anyio.run(go)).newest_ranking()
    assert [text.startswith("cannot write ") for text in notes.texts] == [True]


# ---- What only the archive gives its agent


@pytest.mark.parametrize(
    "power", [{"corpus": "diary"}, {"approve": ["all"]}, {"upload_traces": True}, {"redact": ["(a+)+b"]}], ids=str
)
def test_an_archive_gives_its_agent_nothing_of_this_machines(stopped: Path, tmp_path: Path, power: dict[str, Any]):
    """A folder of texts to read, the approval of its tools' calls, an upload."""
    if "corpus" in power:
        power["corpus"] = str(tmp_path / "diary")
        (tmp_path / "diary").mkdir()
        (tmp_path / "diary" / "secret.txt").write_text("The secret is out.")
    edited(stopped, lambda info: info["settings"].update(power))
    with pytest.raises(UsageError, match="--trust-archive lets it"):
        resumed(stopped, machine(tmp_path))
    if "upload_traces" not in power:  # which needs a key
        assert resumed(stopped, machine(tmp_path), trust_archive=True)


# ---- Prices, by which the user's ceiling is kept


def test_a_strangers_prices_do_not_loosen_a_ceiling_and_the_users_own_keep_it(
    run: Path, endpoint: FakeEndpoint, tmp_path: Path
):
    edited(run, lambda info: info["settings"].update(prices=["another=0/0"], price_by_name=True))
    mine = machine(tmp_path, OPENAI_API_KEY=KEYS["OPENAI_API_KEY"])
    named: dict[str, Any] = {**ANEW, "judge_base_url": endpoint.base_url, "max_cost": 0.001}
    for attempt in (rescored, quoted):
        with pytest.raises(UsageError, match="the price of the judge"):
            attempt(run, mine, named)
    assert endpoint.requests == []
    result = rescored(run, mine, {**named, "prices": {"another": "1000/1000"}})
    assert "--max-cost 0.001" in result.stopped


def test_prices_of_an_archive_are_checked_as_those_of_a_user(run: Path, tmp_path: Path):
    for bad in (["m=-1/2"], "m", {"m": "nan/1"}, [5], {"m": [1]}):
        edited(run, lambda info, prices=bad: info["settings"].update(prices=prices))
        with pytest.raises(ArchiveDamaged, match="settings"):
            rescored(run, machine(tmp_path))


@pytest.mark.parametrize(
    "kinds", [(ArchiveDamaged, CannotWrite), (CannotWrite, ArchiveDamaged), (Refused, CannotWrite)]
)
def test_errors_of_several_kinds_at_once_are_one_error(run: Path, kinds: tuple[type[Exception], type[Exception]]):
    first, second = (kind(word) for kind, word in zip(kinds, ("first", "second"), strict=True))
    with RunStore(run, now()) as store, pytest.raises(kinds[0], match=r"^first"), one_error(store, new=False):
        raise ExceptionGroup("of concurrent tasks", [ExceptionGroup("of one", [first]), second])
