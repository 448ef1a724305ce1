"""The settings of a run: name, type, default, bounds and meaning of each, declared once.

`--help`, docs/commands.md, `--config` files, the environment and the checks of `harness.core.settings_sources` all
read these declarations. Importing this module loads no pydantic, so that `--help` stays quick.

Keys are not settings: they stay in the environment and in `Endpoint`, which nothing writes down.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, cast

from harness.core.prices import price_word, price_words
from harness.core.recipes import vary_text, vary_word
from harness.core.sampled_tokens import TokenPolicy
from harness.core.setting import (
    Setting,
    agent_words,
    declare,
    enough_tokens,
    pattern_word,
    profile_text,
    rollout_word,
    shard_word,
)
from harness.core.unicode import without_credentials

Api = Literal["responses", "chat"]
TopologyName = Literal["arena", "anchor", "single", "double", "swiss", "round_robin", "cyclic", "none"]
TopologyChoice = Literal[TopologyName, "auto"]
"""What a user may say; settings that are loaded hold a name."""
EstimatorName = Literal["tiers", "wins", "margins", "bt", "pooled"]
OrderPolicy = Literal["both", "balanced", "single"]
"""The orders in which a match is judged: both; one, with the sides balanced; or always `a` first."""
RewardFrom = Literal["rank", "score"]
JudgeTier = Literal["default", "flex", "flex,default"]
DEFAULT_RUBRIC = "writing"
OFFLINE_JUDGE = "offline-features"
OFFLINE_MODEL = "offline-extractive"
JUDGE_KEY = "HARNESS_JUDGE_API_KEY"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything about a run that a user may set. `harness.core.settings_sources.load` makes checked ones."""

    n: int = declare(8, "Rollouts a query, the anchor included.", at_least=1, at_most=256)
    temperature: float = declare(0.8, "The samples' temperature.", at_least=0, at_most=2)
    anchor_temperature: float = declare(
        0.0, "The anchor's temperature; training wants that of the samples.", at_least=0, at_most=2
    )
    top_p: float | None = declare(None, "The samples' top_p.", default_text="the agent's own", above=0, at_most=1)
    vary: str | None = declare(
        None,
        "How samples differ: `temperature`, `effort=low,high`, `instructions=FILE` (texts to put before the agent's "
        "instructions), `instructions=4` (so many paraphrases), `models=a:2,b:1`, several joined by x, or `auto` (the "
        "first that works). Unless temperature is among them, the anchor is the agent as it stands.",
        default_text="by temperature",
        metavar="HOW",
        check=vary_word,
        words=vary_text,
        also="Mapping[str, object]",
    )
    strict_temperature: bool = declare(False, "Stop where a model refuses a temperature.", default_text="go on")
    anchor_failed: Literal["rank", "stop"] = declare("rank", "If the anchor failed: rank the other rollouts, or stop.")
    model: str | None = declare(None, "The model of every agent of the run.", default_text="the agent's own")
    base_url: str | tuple[str, ...] | None = declare(
        None,
        "The OpenAI-compatible address of the model; repeat the option for several servers of one model.",
        default_text="OPENAI_BASE_URL, else OpenAI's",
        metavar="URL",
    )
    api: Api | None = declare(
        None, "Which of OpenAI's APIs to call.", default_text="responses at OpenAI's own address, else chat"
    )
    judge: Literal["pairwise", "ruler"] = declare(
        "pairwise", "Judge two rollouts at a time (pairwise), or a whole group at once (ruler)."
    )
    judge_model: str | tuple[str, ...] | None = declare(
        None,
        "The judge's model; repeat the option for a jury.",
        default_text=f"the agent's own, which favours itself; `{OFFLINE_JUDGE}`: embedded",
    )
    judge_base_url: str | tuple[str, ...] | None = declare(
        None,
        "The judge's OpenAI-compatible address; one for a whole jury, or one for each juror, in order.",
        default_text="the agent's",
        metavar="URL",
    )
    judge_agent: str | tuple[str, ...] | None = declare(
        None,
        "An agent that judges, named as for --agent: it looks into the whole record and the files of both sides. "
        "Repeatable; with --judge-model a jury of both.",
        default_text="a model judges",
        metavar="AGENT",
        words=agent_words,
        also="object",
    )
    judge_agent_when: Literal["always", "unsure"] = declare(
        "always",
        "unsure: with --judge-model, the model judges first, and the agent only the pairs whose better side the fit of "
        "the group names with less than 90 %, or on which the model's orders flip.",
    )
    judge_max_turns: int = declare(20, "Model turns that a judge agent may take for a verdict.", at_least=1)
    jury: Literal["mean", "median"] = declare("mean", "How the scores of a jury are averaged.")
    judge_api: Api | None = declare(None, "Which of OpenAI's APIs to call for the judge.", default_text="as --api")
    judge_label: str | None = declare(None, "The judge's name in verdict keys.", default_text="model@host")
    judge_timeout: float = declare(
        300.0,
        "Seconds that a verdict may take, retries included; waits for a rate limit do not count.",
        default_text="300; 1800 with --judge-tier flex",
        metavar="SECONDS",
        above=0,
    )
    judge_tier: JudgeTier = declare(
        "default",
        "The service tier of judge calls. flex: slower, at half the list price; `flex,default`: bought at the "
        "ordinary tier where flex has no room.",
    )
    judge_batch: bool = declare(
        False,
        "Judge by the provider's batches, at half the list price: the command ends when they are handed in, and "
        "`resume` goes on with what came back.",
        default_text="judge now",
        off_flag="--judge-now",
    )
    judge_concurrency: int = declare(32, "Judge calls at a time.", at_least=1)
    judge_budget: int = declare(
        32_000,
        "Tokens that the judge reads of both transcripts together, at least 200; 0: no limit.",
        metavar="TOKENS",
        check=enough_tokens,
    )
    judge_repeats: int = declare(
        1, "Verdicts for each pair and order; their mean counts.", metavar="K", at_least=1, at_most=100
    )
    max_cost: float | None = declare(
        None,
        "USD that one command may spend, agent and judge together.",
        default_text="no ceiling",
        metavar="USD",
        at_least=0,
    )
    prices: tuple[str, ...] = declare(
        (),
        "What a model costs, in USD a million tokens read, written and read from the cache (else as read). Wins "
        "over the list price. Repeatable; in a file `prices:`, a mapping.",
        default_text="list prices",
        metavar="MODEL=IN/OUT[/CACHED]",
        check=price_word,
        on_flag="--price",
        words=price_words,
        also="Mapping[str, str | Sequence[float]]",
    )
    price_by_name: bool = declare(
        False,
        "At an address that no price list knows, such as a gateway's, take the list price of the model's name.",
        default_text="unknown there",
    )
    rubric: str | None = declare(
        None, "A packaged rubric's name, or your own FILE.md.", default_text="the agent file's RUBRIC, else writing"
    )
    require_citations: bool = declare(
        False,
        "Ask the judge to cite side, step and words for each remark; a verdict whose remarks cite what is not there "
        "fails after the repair turn.",
        default_text="not asked",
    )
    show_instructions: bool = declare(
        True, "Show the judge the agent's instructions.", default_text="show", off_flag="--hide-instructions"
    )
    topology: TopologyChoice = declare(
        "arena",
        "The tournament: who meets whom. `auto`: from 6 rollouts on cyclic, for as many calls as arena makes at "
        "most; else arena. `none`: judge later with `rescore`.",
        default_text="arena; cyclic with --budget",
    )
    estimator: EstimatorName = declare("pooled", "How matches become ranks. `tiers` is ArenaRL's.")
    judge_profile: str | None = declare(
        None,
        "With `--estimator pooled`, and in `best`: what is known of the judge beforehand, from a RUN's newest "
        "ranking, a FILE that `stats` wrote, or its kind: `sharp`, `usual`, `noisy`, `relative` (no absolute level).",
        default_text="only what the groups ranked show",
        metavar="RUN|FILE|KIND",
        words=profile_text,
        also="JudgeProfile",
    )
    reward: RewardFrom = declare("rank", "Make the rewards from the rank, or from the estimator's score.")
    order: OrderPolicy | None = declare(
        None,
        "The orders in which each pair is judged.",
        default_text="both; cyclic: one, and with calls left the other too",
    )
    budget: int | None = declare(
        None,
        "Judge calls a query, spent on the best design for so many: new pairs in one order first, then the "
        "other order of the closest.",
        default_text="what the topology takes",
        metavar="CALLS",
        at_least=1,
    )
    confidence: float | None = declare(
        None,
        "Stop judging a `cyclic` group once one rollout is best with this probability; 1: once nothing left "
        "could change it.",
        default_text="judge to the end; `best`: 0.95",
        above=0,
        at_most=1,
    )
    judge_when: Literal["always", "tied"] = declare(
        "always",
        "tied: rank by the agent file's own reward(), and ask the judge only among rollouts that reward() "
        "leaves level.",
    )
    failed: Literal["by-cause", "exclude", "last"] = declare(
        "by-cause", "How failed rollouts rank. by-cause: last where the agent is at fault, else not at all."
    )
    include: tuple[str, ...] = declare(
        (),
        "Rank only these rollouts: K (of every query), QUERY/K, or QUERY/ (all of one); repeatable.",
        default_text="all",
        metavar="ROLLOUT",
        check=rollout_word,
    )
    exclude: tuple[str, ...] = declare(
        (),
        "Leave these rollouts out of the ranking; written as for --include.",
        default_text="none",
        metavar="ROLLOUT",
        check=rollout_word,
    )
    shard: str | None = declare(
        None,
        "`run`: only part K of N of the queries, by a hash of their ids; `merge` makes one run of all parts.",
        default_text="all queries",
        metavar="K/N",
        check=shard_word,
    )
    concurrency: int = declare(16, "Rollouts at a time.", at_least=1)
    max_unjudged: float = declare(
        256.0,
        "Megabytes of transcripts that may wait for their judge; no further query begins meanwhile.",
        metavar="MB",
        above=0,
    )
    engine: Literal["local", "ray"] = declare("local", "Run the agent in this process, or in workers of a Ray cluster.")
    ray_address: str | None = declare(
        None,
        "The Ray cluster that `--engine ray` connects to.",
        default_text="RAY_ADDRESS, else the CPUs of this machine",
        metavar="ADDRESS",
    )
    ship: tuple[str, ...] = declare(
        (),
        "Send the Ray cluster only these files beside the agent's: a pattern such as `tools/**/*.py`. Repeatable.",
        default_text="the folder of the agent's file",
        metavar="GLOB",
    )
    isolate: Literal["none", "process"] = declare(
        "none",
        "process: make each rollout in a process, a working folder and a temporary folder of its own; a file with "
        "REUSES_PROCESS, or a packaged agent, shares the process with earlier rollouts. Else rollouts share the "
        "process, its files and the agent's module.",
        default_text="rollouts share a process",
    )
    memory: int | None = declare(
        None,
        "With `--isolate process`: megabytes that the process of a rollout may take, the loaded agent included.",
        default_text="no limit",
        metavar="MB",
        at_least=1,
        at_most=1_000_000_000,
    )
    timeout: float = declare(
        300.0, "Seconds that a rollout may take; waits for a rate limit do not count.", metavar="SECONDS", above=0
    )
    request_timeout: float = declare(
        120.0,
        "Seconds that one attempt of a model call may take; in a stream, the time between two events.",
        metavar="SECONDS",
        above=0,
    )
    retries: int = declare(
        5, "Further attempts of a model call that failed. A rate limit spends none.", at_least=0, at_most=100
    )
    repairs: int = declare(
        1, "Further turns in which a judge may mend a reply that cannot be used.", at_least=0, at_most=10
    )
    grace: float = declare(
        30.0,
        "Seconds that rollouts under way may go on after Ctrl-C; a second Ctrl-C ends them.",
        metavar="SECONDS",
        at_least=0,
    )
    give_up: float = declare(
        300.0, "Seconds without any reply after which an endpoint is asked no more.", metavar="SECONDS", above=0
    )
    max_turns: int = declare(20, "Model turns that a rollout may take.", at_least=1)
    max_failures: int = declare(
        0,
        "Up to so many failed or partly captured rollouts and incomplete groups, the exit code is still 0.",
        at_least=0,
    )
    seed: int = declare(0, "The seed of every random choice of the harness.")
    redact: tuple[str, ...] = declare(
        (),
        "A regular expression: text that it matches is neither kept nor judged. Case counts unless the "
        "pattern begins with (?i). Repeatable.",
        default_text="",
        metavar="PATTERN",
        check=pattern_word,
    )
    approve: tuple[str, ...] = declare(
        (),
        "Approve the calls of this tool where they need approval; `all`, `none`: those of all tools, of none. "
        "Wins over the agent file's approve(). Repeatable.",
        default_text="the agent file's approve()",
        metavar="NAME",
    )
    tokens: TokenPolicy = declare(
        "off",
        "Record the token ids and logprobs of each reply, for training: where the server tells them (auto), or "
        "else end the run (require; `gateway` answers 400).",
    )
    upload_traces: bool = declare(
        False, "Upload the rollouts' traces, unredacted, to OpenAI; needs OPENAI_API_KEY.", default_text="do not"
    )
    offline: bool = declare(False, "Use the embedded model and judge: a self-test.", default_text="")
    instructions: Path | None = declare(
        None,
        "Give the starting agent the text of this file as its instructions.",
        default_text="the agent's own",
        metavar="FILE",
    )
    corpus: Path | None = declare(
        None, "Search the .txt and .md files of this folder.", default_text="the packaged ones", metavar="DIR"
    )
    runs_dir: Path = declare(Path("runs"), "Where runs are kept.", metavar="DIR")

    @property
    def tournament(self) -> TopologyName:
        """The topology's name. Raises ValueError where `auto` is not settled, as `load` does."""
        if self.topology == "auto":
            raise ValueError("these settings were not loaded")
        return self.topology


SETTINGS: Mapping[str, Setting] = {
    f.name: replace(f.metadata["setting"], name=f.name, type=f.type, default=f.default) for f in fields(Settings)
}
"""Every setting's declaration by its name, in the order of `Settings`."""


ADDRESSES = ("base_url", "judge_base_url")
"""The settings that are addresses, which may hold a user and a password."""


_OF_ONE_COMMAND = ("engine", "ray_address", "ship", "isolate", "memory")
"""Settings that change nothing of what a run holds. No archive says on which machines its agent is run."""
_ADDED_LATER = (
    *("tokens", "judge_profile", "shard", "judge_tier", "max_unjudged", "judge_batch", "vary", "anchor_temperature"),
    *("judge_agent", "judge_agent_when", "judge_max_turns", "require_citations"),
)
"""Settings that are written down only where they are used."""


def as_written(settings: Settings) -> dict[str, Any]:
    """Return settings as JSON fit to be written down: no user or password in an address."""
    plain: dict[str, Any] = {}
    for name, setting in SETTINGS.items():
        value: Any = getattr(settings, name)
        if name in _OF_ONE_COMMAND or (name in _ADDED_LATER and value == setting.default):
            continue  # what is written of a run that does not use a setting is as it was before there was one
        values = list(cast("tuple[Any, ...]", value)) if isinstance(value, tuple) else [value]
        if name in ADDRESSES:
            values = list(map(without_credentials, values))
        values = [str(each) if isinstance(each, Path) else each for each in values]
        plain[name] = values if isinstance(value, tuple) else values[0]
    return plain


OF_JUDGING = (
    *("judge_model", "judge_base_url", "judge_api", "judge_label", "judge_tier", "judge_budget", "judge_repeats"),
    *("judge_agent", "judge_agent_when", "judge_max_turns", "jury", "rubric", "require_citations"),
    *("show_instructions", "seed", "judge_concurrency", "judge_timeout", "max_cost", "prices", "price_by_name"),
    *("request_timeout", "give_up", "grace", "retries", "repairs", "max_failures"),
)
"""They change those of the runs that are compared."""
OF_ROLLING_OUT = (
    *("n", "temperature", "anchor_temperature", "top_p", "vary", "strict_temperature", "base_url", "api"),
    *("concurrency", "timeout"),
    *("max_turns", "approve", "redact", "upload_traces", "offline", "corpus"),
)
"""Only agents have a use for them."""
VARIED = ("instructions", "model")
"""The same; one agent with several values is as many sides."""
