"""Loading the agent that --agent names, and what an agent's file knows about the run that it is loaded for.

Nothing is loaded from inside of a run folder: whoever made the run wrote what lies there.
"""

import hashlib
import importlib
import importlib.util
import inspect
import os
import random
import sys
import traceback
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from agents import Agent, ModelSettings
from openai.types.shared import Reasoning

from harness.core.errors import UsageError, did_you_mean, goes_on, on_a_line, option, quoted, short_message
from harness.core.run_folders import enclosing_run
from harness.core.settings import Api
from harness.core.unicode import valid_unicode
from harness.core.user_files import is_file, is_folder
from harness.rollouts.agent_code import ends_rollout
from harness.rollouts.app_functions import is_app_function
from harness.rollouts.app_parts import RUN_PARTS, part_fault, part_maker, state_keepers
from harness.rollouts.examples import examples_folder, is_example
from harness.rollouts.prompt_parts import with_parts


@dataclass(frozen=True)
class AgentEnv:
    """Handed to `build(env)`, once a rollout.

    `api` is what the agent's models are spoken to by (hosted tools exist only on "responses"); `offline` is True on
    the embedded model; `corpus` is the user's folder of texts, None for the packaged one; `model` is the name asked
    for with --model; `rng` is this rollout's own.
    """

    api: Api
    offline: bool
    corpus: Path | None
    model: str | None
    rng: random.Random

    def model_settings(self, _default: str = "") -> ModelSettings:
        """Return settings that leave it to the harness whether the model reasons.

        It does not where it takes a temperature only without, which the model's first refusal shows. The argument is
        of earlier versions, and is not read.
        """
        return ModelSettings(reasoning=Reasoning())


def agent_folders(here: Path) -> list[Path]:
    """Return the folders that there are, the one in `here` first."""
    folders = (here / "agents_config", examples_folder())
    return [folder for folder in folders if folder.is_dir() and not run_around(folder)]


def agent_files(here: Path) -> Iterator[Path]:
    """Yield the files that `--agent NAME` finds, those in `here` first."""
    for folder in agent_folders(here):
        yield from sorted(p for p in folder.glob("*.py") if not (p.name.startswith("_") or run_around(p)))


def names_of_agents(here: Path) -> list[str]:
    """Return the names that `--agent NAME` finds, entry points among them. No agent is loaded for that."""
    entries = (entry.name for entry in entry_points(group=_ENTRY_POINTS))
    return sorted({*(path.stem for path in agent_files(here)), *entries})


def run_around(path: Path) -> str | None:
    """Return the run folder that a path is in; the packaged examples are ours, wherever they are installed."""
    return None if path.resolve().is_relative_to(examples_folder()) else enclosing_run(path)


_ENTRY_POINTS = "harness.agents"
_HOOKS = ("context", "before_rollout", "after_rollout", "reward", "approve", "redact")


class NoSuchAgent(UsageError):
    """There is no agent of the name, file or module that was given."""


@dataclass(frozen=True)
class LoadedAgent:
    """A loaded agent: its name, its file, and how to make one."""

    name: str
    source: Any
    """An Agent, or what makes one: a function of no argument or of an AgentEnv, sync, async or a context manager."""
    file: Path | None = None
    packaged: bool = False
    """One of the examples that come with the harness: only these may run on the embedded model unasked."""
    examples: tuple[str, ...] = ()
    context: Callable[..., Any] | None = None
    """`context(query)` makes what the SDK hands to tools and instructions; called once a rollout."""
    before_rollout: Callable[..., Any] | None = None
    """`before_rollout(query, context)` sets up, `after_rollout(query, context)` cleans up, failed or not."""
    after_rollout: Callable[..., Any] | None = None
    reward: Callable[..., Any] | None = None
    """`reward(rollout, query)` gives a verifiable reward, or None; asked only of rollouts that ended well."""
    approve: Callable[..., Any] | None = None
    """`approve(item, context)` decides on a tool call that needs approval: a bool, or the reason of a refusal."""
    run_config: Callable[..., Any] | None = None
    """`run_config(query)`, `hooks(query)`, `session(query)` make what a rollout's run is begun with: see app_parts."""
    hooks: Callable[..., Any] | None = None
    session: Callable[..., Any] | None = None
    snapshot: Callable[..., Any] | None = None
    """`snapshot(context, call)` keeps the state outside, `restore(context, state)` puts it back for a branch."""
    restore: Callable[..., Any] | None = None
    redact: Callable[[str], str] | None = None
    """`redact(text)` returns a text without what must not be kept; applied to all that is written or judged."""
    shared_mcp: bool = False
    """`SHARED_MCP = True`: one connection to each of the agent's MCP servers serves the whole run."""
    replayable: bool = True
    """`REPLAYABLE = False`: a rollout that was cut off begins anew; the replies that it had cannot be given again."""
    reuses_process: bool = False
    """`REUSES_PROCESS = True`, and packaged: a process of `--isolate process` makes one rollout after another."""
    rubric: str | None = None
    """`RUBRIC = "research"`: what a run is judged by where its user names nothing; a file's path is absolute."""
    instructions: str | None = None
    """What stands in place of the starting agent's own instructions (--instructions)."""
    word: str | None = None
    """What the user typed after --agent: enough to load the agent again from the folder `here`."""
    here: Path | None = None
    """The folder from which `word` was resolved."""
    from_python: bool = False
    """Whether `source` was given as an object."""

    app: bool = False
    """Whether `source` is an app's function that answers a query, and runs agents by itself."""

    @property
    def has_run_parts(self) -> bool:
        """Whether an app gives its runs a RunConfig, hooks or a session."""
        return any(getattr(self, name) for name in RUN_PARTS)

    @asynccontextmanager
    async def open(self, env: AgentEnv) -> AsyncGenerator[Agent[Any]]:
        """Give an Agent for one rollout, and clean up after; an empty one that stands for an app's function.

        Raises UsageError if the source gives none.
        """
        made: Any = Agent(name=self.name) if self.app else self.source
        try:
            if callable(made):  # an Agent is not
                made = made(env) if _takes_env(made) else made()
            made = await made if inspect.isawaitable(made) else made
        except UsageError:
            raise
        except BaseException as exc:
            if not ends_rollout(exc):
                raise
            raise users_error(self._built(), exc, self.file) from exc
        async with AsyncExitStack() as open_until_the_end:
            if hasattr(made, "__aenter__"):
                try:
                    made = await open_until_the_end.enter_async_context(made)
                except BaseException as exc:
                    if not ends_rollout(exc):
                        raise
                    raise users_error(f"starting agent {self.name!r}", exc, self.file) from exc
            if not isinstance(made, Agent):
                raise UsageError(self._not_an_agent(made))
            agent: Agent[Any] = made  # pyright: ignore[reportUnknownVariableType]
            if self.instructions is not None:
                agent = with_parts(agent, self.instructions)
            yield agent

    def _built(self) -> str:
        """Return what is said to have raised where the source does."""
        if not self.from_python:
            return f"build() of agent {self.name!r}"
        called = "build(env)" if _takes_env(self.source) else "build()"
        return f"{_EXPECTED}, found {_described(self.source)}, which was called as {called} and"

    def _not_an_agent(self, made: Any) -> str:
        if self.from_python:
            returned = "" if made is self.source else f", which returned {_described(made)}"
            return f"{_EXPECTED}, found {_described(self.source)}{returned}"
        name = getattr(self.source, "__name__", type(self.source).__name__)
        found = f"{self.file or self.name}: {name} gave a {type(made).__name__}, not an openai-agents Agent"
        return f"{found}; return one, or define `agent = Agent(...)`, or answer in `async def answer(query) -> str`"


_EXPECTED = (
    "expected an openai-agents Agent, a function `build()` or `build(env)` that returns one, an app's `async def "
    "answer(query)`, or a module"
)


def from_object(agent: Any) -> LoadedAgent:
    """Wrap an Agent, a function that builds one, or a module as an agent's file is one, given from Python.

    Raises UsageError for an object that can be none of these.
    """
    if isinstance(agent, ModuleType):
        return _from_module(agent, "", None, name=agent.__name__.rpartition(".")[2])
    name: Any = getattr(agent, "name", None) or getattr(agent, "__name__", "agent")
    if inspect.iscoroutine(agent):
        agent.close()
    usable = isinstance(agent, Agent) or callable(agent) or hasattr(agent, "__aenter__")
    if not usable:
        raise UsageError(f"{_EXPECTED}, found {_described(agent)}")
    return LoadedAgent(name=name, source=agent, from_python=True, app=is_app_function(agent))


def _described(given: Any) -> str:
    name: Any = getattr(given, "__name__", None)
    if inspect.iscoroutine(given):
        return f"a coroutine of the function {name!r}: pass the function itself"
    if inspect.isroutine(given):
        return f"the {'async ' if inspect.iscoroutinefunction(given) else ''}function {name!r}"
    return f"the class {name!r}" if inspect.isclass(given) else f"a {type(given).__name__}"


def load_agent(word: str, here: Path, *, file: Path | None = None) -> LoadedAgent:
    """Find the agent that `word` names, in `here` first; if `file` is given, import a module only from there.

    Raises UsageError where nothing fits, the attribute is missing, the module's import raises (naming its line), or the
    file is inside of a run folder.
    """
    if valid_unicode(word) != word:
        raise UsageError(f"{option('agent')} {quoted(word)}: holds a byte that is not UTF-8, which a run cannot keep")
    return replace(_find(word, here, file), word=word, here=here)


def is_plain_name(word: str) -> bool:
    """Return whether a word is a name to look up, and can be no path and no module."""
    return word not in {"", ".", ".."} and not word.endswith(".py") and not set(word) & set("/\\:\0")


def _find(word: str, here: Path, file: Path | None) -> LoadedAgent:
    place, colon, attr = word.rpartition(":") if ":" in word[2:] else (word, "", "")
    if place.endswith(".py"):
        path = Path(os.path.realpath(here / place))  # Path.resolve raises RuntimeError for a link to itself
        if not is_file(path):
            files = [p.name for p in path.parent.glob("*.py")] if is_folder(path.parent) else []
            missing = f"no file {on_a_line(place)}{did_you_mean(path.name, files)}"
            raise NoSuchAgent(goes_on(missing, f"{option('agent')} takes NAME, module:attr or path.py:attr"))
        _refuse_in_run(here / place)
        return _from_module(_import_file(path, here), attr, path, name=path.stem)
    if colon:
        return _from_module(_import_name(place, here, file), attr, None, name=attr)
    for path in (folder / f"{word}.py" for folder in agent_folders(here)):
        if is_file(path):
            _refuse_in_run(path)
            return _from_module(_import_file(path, here), "", path, name=word, packaged=is_example(path))
    for entry in entry_points(group=_ENTRY_POINTS, name=word):
        try:
            loaded = entry.load()
        except (Exception, SystemExit) as exc:
            raise users_error(f"loading entry point {entry.value}", exc, None) from exc
        if isinstance(loaded, ModuleType):
            return _from_module(loaded, "", None, name=word)
        return LoadedAgent(name=word, source=loaded)
    names = names_of_agents(here)
    why = "agents_config/ here is inside of a run folder, where nothing is loaded: copy a file that you trust elsewhere"
    passed_over = (here / "agents_config").is_dir() and run_around(here / "agents_config")
    raise NoSuchAgent(
        f"{goes_on(f'no agent {quoted(word)}{did_you_mean(word, names)}', 'known')}: {', '.join(names) or 'none'}. "
        f"Or pass module:attr or path.py:attr{f'. {why}' if passed_over else ''}"
    )


def _refuse_in_run(path: Path) -> None:
    if run := run_around(path):
        raise UsageError(
            f"{path} is inside of the run folder {run}, and nothing is loaded from there: if you trust the file, copy "
            f"it elsewhere and name the copy with {option('agent')}"
        )


def _import_file(path: Path, here: Path) -> ModuleType:
    """Run a file as a module of its own; its folder is importable, as it is for a script, and so is `here`."""
    name = f"harness_agent_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} cannot be imported as a Python module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    folders = [folder for folder in (path.parent, here) if str(folder) not in sys.path and not enclosing_run(folder)]
    sys.path += map(str, folders)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as exc:
        del sys.modules[name]
        raise users_error(f"importing {path.name}", exc, path) from exc
    return module


def _import_name(name: str, here: Path, file: Path | None) -> ModuleType:
    if str(here) not in sys.path and not enclosing_run(here):
        sys.path.insert(0, str(here))
    places = _places_of_module(name.partition(".")[0])
    for place in places:
        _refuse_in_run(place)
    if file and not any(file.is_relative_to(place.resolve()) for place in places):
        raise UsageError(f"module {name!r} is no longer found at {file}")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as exc:
        if exc.name and (name == exc.name or name.startswith(f"{exc.name}.")):
            raise NoSuchAgent(f"no module {quoted(name)}; is it installed, or in {here}?") from None
        raise users_error(f"importing {name}", exc, None) from exc
    except (Exception, SystemExit) as exc:
        raise users_error(f"importing {name}", exc, None) from exc


def _places_of_module(name: str) -> list[Path]:
    """Return the files and folders that a top-level module would be imported from; none where there is no module."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):  # no name of a module
        return []
    places = [*(spec.submodule_search_locations or ()), spec.origin or ""] if spec else []
    return [path for path in map(Path, places) if path.is_absolute()]


def users_error(what: str, exc: BaseException, path: Path | None) -> UsageError:
    """Return the error that names what the user's code raised while `what` was done, and its line."""
    frames = traceback.extract_tb(exc.__traceback__)
    frames = [f for f in frames if "importlib" not in f.filename and f.filename != __file__]
    users = [f for f in frames if path and Path(f.filename) == path] or frames  # the user's own file, if it is there
    file, line = (users[-1].filename, users[-1].lineno) if users else (None, None)
    if isinstance(exc, SyntaxError):
        return UsageError(f"{what} raised SyntaxError: {exc.msg} ({exc.filename}, line {exc.lineno})")
    message = short_message(" ".join(str(exc).split())) or "no message"
    return UsageError(f"{what} raised {type(exc).__name__}: {message}{f' ({file}, line {line})' if file else ''}")


def _from_module(module: ModuleType, attr: str, path: Path | None, *, name: str, packaged: bool = False) -> LoadedAgent:
    named = getattr(module, "__file__", None)
    file = path or (Path(named) if named else None)
    where, attrs = file or module.__name__, [attr] if attr else ["agent", "build"]
    source = next((getattr(module, a) for a in attrs if hasattr(module, a)), None)
    if source is None:
        expected = f"{attr!r}" if attr else "`agent` or `build`"
        raise UsageError(f"{where} has no {expected}{did_you_mean(attr, vars(module))}")
    if not isinstance(source, Agent) and not callable(source):
        what = f"{attr or attrs[0]!r} is a {type(source).__name__}"
        raise UsageError(f"{where}: {what}, not an openai-agents Agent or a function that builds one")
    app = is_app_function(source)
    # names of an app's own are the app's: what it gives its runs, it gives them itself
    hooks: dict[str, Any] = {hook: getattr(module, hook, None) for hook in _HOOKS if not (app and hook == "context")}
    for hook, function in hooks.items():
        if function is not None and not callable(function):
            raise UsageError(f"{module.__file__}: {hook!r} must be a function, not a {type(function).__name__}")
    hooks |= {part: part_maker(_checked_part(module, part)) for part in RUN_PARTS if not app}
    hooks |= state_keepers(module)
    named_examples: Any = getattr(module, "EXAMPLES", ())
    examples = (named_examples,) if isinstance(named_examples, str) else tuple(str(each) for each in named_examples)
    switches = {
        "app": app,
        "shared_mcp": bool(getattr(module, "SHARED_MCP", False)),
        "replayable": bool(getattr(module, "REPLAYABLE", True)),
        "reuses_process": packaged or bool(getattr(module, "REUSES_PROCESS", False)),
    }
    return LoadedAgent(name, source, file, packaged, examples, rubric=_rubric(module, file), **switches, **hooks)


def _checked_part(module: ModuleType, name: str) -> Any:
    part = getattr(module, name, None)
    if not callable(part) and (instead := part_fault(name, part)):
        raise UsageError(
            f"{module.__file__}: {name!r} must be a function of the query, or {instead}, not a {type(part).__name__}; "
            "if it is something else, rename it"
        )
    return part


def _rubric(module: ModuleType, file: Path | None) -> str | None:
    word: Any = getattr(module, "RUBRIC", None)
    if word is None or (isinstance(word, str) and word and not (Path(word).suffix or "/" in word)):
        return word
    if not isinstance(word, str) or not word or file is None or "\0" in word:
        raise UsageError(f"{file or module.__name__}: RUBRIC must be the name of a rubric, or of a FILE.md beside it")
    return os.path.normpath(file.parent / word)


def _takes_env(build: Any) -> bool:
    try:
        return len(inspect.signature(build).parameters) > 0
    except (TypeError, ValueError):
        return False
