"""Every way to name an agent finds it."""

import random
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, WebSearchTool

import harness
from harness.core.errors import UsageError
from harness.endpoints.refused_settings import leaves_reasoning
from harness.rollouts import examples
from harness.rollouts.loading import AgentEnv, from_object, load_agent
from tests.conftest import ROOT

pytestmark = pytest.mark.anyio

ENV = AgentEnv(api="chat", offline=True, corpus=None, model=None, rng=random.Random(0))


async def name_of(word: str, here: Path) -> str:
    async with load_agent(word, here).open(ENV) as agent:
        return agent.name


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("sys.path", [*__import__("sys").path])
    (tmp_path / "agents_config").mkdir()
    (tmp_path / "agents_config" / "mine.py").write_text(
        "from agents import Agent\nagent = Agent(name='in the folder')\nEXAMPLES = ['What?']\n"
    )
    source = (
        "from agents import Agent\nspare = Agent(name='by attribute')\n"
        "async def build(env):\n    return Agent(name='built ' + env.api)\n"
    )
    (tmp_path / "some_agents_of_a_test.py").write_text(source)
    return tmp_path


async def test_a_name_is_found_in_the_folder_here(here: Path):
    assert await name_of("mine", here) == "in the folder"
    assert load_agent("mine", here).examples == ("What?",)


async def test_a_file_gives_its_attribute_or_its_build(here: Path):
    assert await name_of("some_agents_of_a_test.py:spare", here) == "by attribute"
    assert await name_of("some_agents_of_a_test.py", here) == "built chat"


async def test_a_module_gives_its_attribute(here: Path):
    assert await name_of("some_agents_of_a_test:spare", here) == "by attribute"


async def test_the_packaged_agent_is_found_anywhere_and_only_it_counts_as_packaged(here: Path):
    assert load_agent("search", here).packaged
    assert not load_agent("mine", here).packaged
    assert not load_agent("some_agents_of_a_test.py", here).packaged


async def test_a_changed_copy_of_the_packaged_agent_is_the_users_own(here: Path):
    packaged = load_agent("search", here)
    assert packaged.file
    copy = here / "agents_config" / "search.py"
    copy.write_bytes(packaged.file.read_bytes())
    assert load_agent("search", here).packaged
    copy.write_bytes(copy.read_bytes() + b"\n# mine now\n")
    assert not load_agent("search", here).packaged


async def test_a_builder_given_from_python_may_take_no_argument_or_the_environment():
    def plain() -> Agent:
        return Agent(name="plain")

    def told(env: Any) -> Agent:
        return Agent(name=f"told {env.api}")

    for build, name in ((plain, "plain"), (told, "told chat")):
        async with from_object(build).open(ENV) as agent:
            assert agent.name == name


async def test_what_is_no_agent_is_refused_when_it_is_opened():
    with pytest.raises(UsageError, match="which returned a int"):
        async with from_object(lambda: 5).open(ENV):
            pass


@pytest.mark.parametrize(
    ("api", "offline", "hosted"), [("responses", False, True), ("chat", False, False), ("chat", True, False)]
)
async def test_the_search_agent_uses_hosted_search_where_it_exists(
    api: Any, offline: bool, hosted: bool, tmp_path: Path
):
    env = AgentEnv(api=api, offline=offline, corpus=None, model=None, rng=random.Random(0))
    async with load_agent("search", tmp_path).open(env) as agent:
        (tool,) = agent.tools
        assert isinstance(tool, WebSearchTool) is hosted
        assert agent.model == examples.AGENT_MODEL
        for asked in ("research", "two to three paragraphs", "300 words", "report"):
            assert asked in str(agent.instructions).lower()


async def test_the_examples_leave_it_to_the_harness_whether_a_model_reasons(tmp_path: Path):
    for model in (None, "gpt-5.2-mini", "llama3"):
        env = AgentEnv(api="chat", offline=False, corpus=None, model=model, rng=random.Random(0))
        async with load_agent("search", tmp_path).open(env) as agent:
            assert leaves_reasoning(agent.model_settings)
        assert env.model_settings("as files of earlier versions ask") == env.model_settings()


def test_an_agent_of_ones_own_beside_the_examples_of_a_checkout_is_no_example(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(examples, "_PACKAGE", tmp_path / "harness")
    folder = tmp_path / "agents_config"
    folder.mkdir()
    for name in ("search.py", "poet.py"):
        (folder / name).write_text("from agents import Agent\nagent = Agent(name='a')\n")
    assert load_agent("search", tmp_path).packaged
    assert not load_agent("poet", tmp_path).packaged


def test_the_examples_are_there():
    there = {p.stem for p in (ROOT / "agents_config").glob("*.py")}
    assert there >= examples.EXAMPLES


async def asks(query: Any) -> str:
    return query.copy()


def copies(given: Any) -> Any:
    return given.copy()


class Bot:
    def run(self, thing: Any) -> Any:
        return thing


EXPECTED = (
    "expected an openai-agents Agent, a function `build()` or `build(env)` that returns one, an app's `async def "
    "answer(query)`, or a module, found "
)


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (
            lambda: copies,
            "the function 'copies', which was called as build(env) and raised AttributeError: 'AgentEnv' object",
        ),
        (lambda: asks("x"), "a coroutine of the function 'asks': pass the function itself"),
        (lambda: Bot, "the class 'Bot', which returned a Bot"),
        (Bot, "a Bot"),
        (lambda: Bot().run, "the function 'run', which returned a AgentEnv"),
        (lambda: None, "a NoneType"),
        (lambda: {"name": "a"}, "a dict"),
        (lambda: [Agent(name="a")], "a list"),
        (
            lambda: lambda thing, context: thing,
            "the function '<lambda>', which was called as build(env) and raised Type",
        ),
    ],
)
async def test_what_is_no_agent_is_named_with_what_was_expected(given: Any, found: str):
    given = given()
    with pytest.raises(UsageError) as raised:
        await harness.rollout(given, "Do it.", n=1, offline=True)
    assert str(raised.value).startswith(EXPECTED + found)
