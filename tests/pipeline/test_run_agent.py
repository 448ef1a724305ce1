"""No code that an archive names or carries is loaded; the agent that made a run here is found again from anywhere."""

from collections.abc import Callable
from contextlib import chdir
from pathlib import Path
from typing import Any

import anyio
import pytest

from harness.archive.reader import RunReader
from harness.core.errors import UsageError
from harness.pipeline.trust import agent_of_run
from harness.pipeline.validation import replay_run
from harness.rollouts.loading import LoadedAgent, agent_files, load_agent
from tests.fake_endpoint import FakeEndpoint
from tests.pipeline.strangers import AGENT, a_run_at, edited, machine

EVIL = "from pathlib import Path\nPath({mark!r}).write_text('ran')\n" + AGENT


@pytest.fixture(autouse=True)
def path_of_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.path", [*__import__("sys").path])


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    """A file that exists once the stranger's code has run."""
    return tmp_path / "mark"


@pytest.fixture
def run(endpoint: FakeEndpoint, tmp_path: Path, mark: Path) -> Path:
    """A run from elsewhere, with code of the stranger's in every place where somebody might look for code."""
    folder = a_run_at(endpoint, tmp_path, machine(tmp_path, "theirs"))
    for place in (folder, folder / "agents_config", folder / "blobs", tmp_path):
        place.mkdir(exist_ok=True)
        for name in ("evil_module.py", "search.py", "__init__.py"):
            (place / name).write_text(EVIL.format(mark=str(mark)))
    return folder


def agent_of(run: Path, environ: dict[str, str], here: Path) -> LoadedAgent:
    with RunReader(run) as reader, chdir(here):
        return agent_of_run(reader, environ, "resume")


def words_of(run: Path) -> list[str]:
    return [
        "evil_module.py",
        "evil_module.py:agent",
        f"runs/{run.name}/evil_module.py:agent",
        f"{run}/evil_module.py",
        "../evil_module.py",
        "evil_module:agent",
        "os:system",
        "agents_config.evil_module:agent",
        "../evil_module",
        f"{run}/evil_module",
        "..",
        "",
        ":",
        "evil_module.py\0",
        "e" * 5000 + ".py",
        "\u202eevil.py",
    ]


def test_no_path_and_no_module_of_an_archive_is_loaded(run: Path, tmp_path: Path, mark: Path):
    mine = machine(tmp_path)
    for word in words_of(run):
        edited(run, lambda info, word=word: info.update(agent_word=word, agent=word or "x"))
        for here in (tmp_path, run, run.parent, Path("/")):
            with pytest.raises(UsageError) as refused:
                agent_of(run, mine, here)
            assert "--agent" in str(refused.value)
            assert len(str(refused.value)) < 1200
    assert not mark.exists()


async def replayed(run: Path, agent: LoadedAgent | None, environ: dict[str, str]) -> list[Any]:
    return [each async for each in replay_run(run, agent, environ)]


def test_replaying_a_run_that_names_code_loads_none(run: Path, tmp_path: Path, mark: Path):
    edited(run, lambda info: info.update(agent_word="evil_module.py:agent"))
    with pytest.raises(UsageError, match=r"harness replay .* --agent path\.py:attr"):
        anyio.run(replayed, run, None, machine(tmp_path))
    assert not mark.exists()


def test_a_file_that_lies_in_the_users_own_folder_is_named_in_the_advice_and_not_loaded(
    run: Path, tmp_path: Path, mark: Path
):
    edited(run, lambda info: info.update(agent_word="evil_module.py:agent"))
    with pytest.raises(UsageError, match=r"`harness resume .* --agent evil_module\.py:agent`"):
        agent_of(run, machine(tmp_path), tmp_path)
    assert not mark.exists()


Naming = Callable[[Path], str]


@pytest.mark.parametrize(
    "naming",
    [
        lambda run: f"{run}/evil_module.py:agent",
        lambda run: "evil_module.py",
        lambda run: "agents_config/search.py",
        lambda run: "blobs/../evil_module.py",
        lambda run: "of_the_run:agent",
        lambda run: "link.py",
    ],
)
def test_nothing_inside_of_a_run_is_loaded_even_where_the_user_names_it(run: Path, mark: Path, naming: Naming):
    (run.parent.parent / "link.py").symlink_to(run / "evil_module.py")
    (run / "link.py").symlink_to(run.parent.parent / "evil_module.py")
    (run / "of_the_run.py").write_text((run / "evil_module.py").read_text())
    with pytest.raises(UsageError, match=r"copy it elsewhere|no module"):
        load_agent(naming(run), run)
    with pytest.raises(UsageError, match="copy it elsewhere"):
        load_agent("link.py", run.parent.parent)
    assert not mark.exists()


def test_the_agents_of_a_run_folder_as_working_folder_are_neither_found_nor_listed(run: Path, mark: Path):
    assert load_agent("search", run).packaged
    assert load_agent("search", run / "agents_config").packaged
    assert not [path for path in agent_files(run) if path.is_relative_to(run)]
    with pytest.raises(UsageError, match="agents_config/ here is inside of a run folder"):
        load_agent("evil_module", run)
    assert not mark.exists()


def test_a_link_among_ones_own_agents_that_leads_into_a_run_is_not_followed(run: Path, tmp_path: Path, mark: Path):
    own = tmp_path / "own" / "agents_config"
    own.mkdir(parents=True)
    (own / "evil.py").symlink_to(run / "evil_module.py")
    assert "evil" not in [path.stem for path in agent_files(own.parent)]
    with pytest.raises(UsageError, match="copy it elsewhere"):
        load_agent("evil", own.parent)
    assert not mark.exists()


# ---- Runs that were made here


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """Another working folder, with other agents of the same names."""
    folder = tmp_path / "elsewhere"
    (folder / "agents_config").mkdir(parents=True)
    for place in (folder, folder / "agents_config"):
        (place / "my_agent.py").write_text("raise RuntimeError('the wrong file')\n")
    return folder


@pytest.mark.parametrize("word", ["my_agent.py", "my_agent.py:agent", "my_agent:agent", "my_agent"])
def test_the_agent_that_made_a_run_here_is_found_again_from_any_folder(
    endpoint: FakeEndpoint, tmp_path: Path, elsewhere: Path, word: str
):
    (tmp_path / "agents_config").mkdir()
    for place in (tmp_path, tmp_path / "agents_config"):
        (place / "my_agent.py").write_text(AGENT)
    mine = machine(tmp_path)
    run = a_run_at(endpoint, tmp_path, mine, agent=word)
    __import__("sys").modules.pop("my_agent", None)
    for here in (tmp_path, elsewhere, Path("/")):
        found = agent_of(run, mine, here)
        assert found.file
        assert found.file.is_relative_to(tmp_path)
        assert not found.file.is_relative_to(elsewhere)
        assert found.word == word
    __import__("sys").modules.pop("my_agent", None)


def test_a_bare_name_means_a_name_and_no_file_of_that_name(run: Path, tmp_path: Path):
    """The run names `search`; a search.py in the working folder is something else."""
    assert agent_of(run, machine(tmp_path), tmp_path).packaged


def test_a_module_that_is_now_found_elsewhere_is_not_the_one_that_made_the_run(
    endpoint: FakeEndpoint, tmp_path: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "my_agent.py").write_text(AGENT)
    mine = machine(tmp_path)
    run = a_run_at(endpoint, tmp_path, mine, agent="my_agent:agent")
    __import__("sys").modules.pop("my_agent", None)
    (tmp_path / "my_agent.py").unlink()
    monkeypatch.syspath_prepend(elsewhere)
    with pytest.raises(UsageError, match="'my_agent' is no longer found at"):
        agent_of(run, mine, elsewhere)


def test_a_changed_run_json_lets_no_file_be_loaded(endpoint: FakeEndpoint, tmp_path: Path):
    (tmp_path / "my_agent.py").write_text(AGENT)
    mine = machine(tmp_path)
    run = edited(a_run_at(endpoint, tmp_path, mine, agent="my_agent.py"), lambda info: info.update(queries=None))
    with pytest.raises(UsageError, match=r"its run\.json has changed.*--agent my_agent\.py`"):
        agent_of(run, mine, tmp_path)
