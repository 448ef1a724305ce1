"""The settings of a run: name, type, default, bounds and meaning of each, declared once.

`--help`, docs/commands.md, `--config` files, the environment and the checks of `harness.core.settings_sources` all
read these declarations. Importing this module loads no pydantic, so that `--help` stays quick.

Keys are not settings: they stay in the environment and in `Endpoint`, which nothing writes down.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from harness.core.addresses import without_credentials
from harness.core.prices import price_word, price_words
from harness.core.sampled_tokens import TokenPolicy
from harness.core.setting import Setting, enough_tokens, pattern_word, profile_text, rollout_word
from harness.core.shards import shard_word

Api = Literal["responses", "chat"]
TopologyName = Literal["arena", "anchor", "single", "double", "swiss", "round_robin", "cyclic", "none"]
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

    n: Annotated[int, Setting("Rollouts a query, the anchor included.", at_least=1, at_most=256)] = 8
    temperature: Annotated[float, Setting("The samples' temperature; the anchor's is 0.", at_least=0, at_most=2)] = 0.8
    top_p: Annotated[
        float | None, Setting("The samples' top_p.", default_text="the agent's own", above=0, at_most=1)
    ] = None
    strict_temperature: Annotated[bool, Setting("Stop where a model refuses a temperature.", default_text="go on")] = (
        False
    )
    anchor_failed: Annotated[
        Literal["rank", "stop"], Setting("If the anchor failed: rank the other rollouts, or stop.")
    ] = "rank"
    model: Annotated[str | None, Setting("The model of every agent of the run.", default_text="the agent's own")] = None
    base_url: Annotated[
        str | tuple[str, ...] | None,
        Setting(
            "The OpenAI-compatible address of the model; repeat the option for several servers of one model.",
            default_text="OPENAI_BASE_URL, else OpenAI's",
            metavar="URL",
        ),
    ] = None
    api: Annotated[
        Api | None,
        Setting("Which of OpenAI's APIs to call.", default_text="responses at OpenAI's own address, else chat"),
    ] = None
    judge: Annotated[
        Literal["pairwise", "ruler"],
        Setting("Judge two rollouts at a time (pairwise), or a whole group at once (ruler)."),
    ] = "pairwise"
    judge_model: Annotated[
        str | tuple[str, ...] | None,
        Setting(
            "The judge's model; repeat the option for a jury.",
            default_text=f"the agent's own, which favours itself; `{OFFLINE_JUDGE}`: embedded",
        ),
    ] = None
    judge_base_url: Annotated[
        str | tuple[str, ...] | None,
        Setting(
            "The judge's OpenAI-compatible address; one for a whole jury, or one for each juror, in order.",
            default_text="the agent's",
            metavar="URL",
        ),
    ] = None
    jury: Annotated[Literal["mean", "median"], Setting("How the scores of a jury are averaged.")] = "mean"
    judge_api: Annotated[
        Api | None, Setting("Which of OpenAI's APIs to call for the judge.", default_text="as --api")
    ] = None
    judge_label: Annotated[str | None, Setting("The judge's name in verdict keys.", default_text="model@host")] = None
    judge_timeout: Annotated[
        float,
        Setting(
            "Seconds that a verdict may take, retries included; waits for a rate limit do not count.",
            default_text="300; 1800 with --judge-tier flex",
            metavar="SECONDS",
            above=0,
        ),
    ] = 300.0
    judge_tier: Annotated[
        JudgeTier,
        Setting(
            "The service tier of judge calls. flex: slower, at half the list price; `flex,default`: bought at the "
            "ordinary tier where flex has no room."
        ),
    ] = "default"
    judge_batch: Annotated[
        bool,
        Setting(
            "Judge by the provider's batches, at half the list price: the command ends when they are handed in, and "
            "`resume` goes on with what came back.",
            default_text="judge now",
            off_flag="--judge-now",
        ),
    ] = False
    judge_concurrency: Annotated[int, Setting("Judge calls at a time.", at_least=1)] = 32
    judge_budget: Annotated[
        int,
        Setting(
            "Tokens that the judge reads of both transcripts together, at least 200; 0: no limit.",
            metavar="TOKENS",
            check=enough_tokens,
        ),
    ] = 32_000
    judge_repeats: Annotated[
        int, Setting("Verdicts for each pair and order; their mean counts.", metavar="K", at_least=1, at_most=100)
    ] = 1
    max_cost: Annotated[
        float | None,
        Setting(
            "USD that one command may spend, agent and judge together.",
            default_text="no ceiling",
            metavar="USD",
            at_least=0,
        ),
    ] = None
    prices: Annotated[
        tuple[str, ...],
        Setting(
            "What a model costs, in USD a million tokens read, written and read from the cache (else as read). Wins "
            "over the list price. Repeatable; in a file `prices:`, a mapping.",
            default_text="list prices",
            metavar="MODEL=IN/OUT[/CACHED]",
            check=price_word,
            on_flag="--price",
            words=price_words,
            also="Mapping[str, str | Sequence[float]]",
        ),
    ] = ()
    price_by_name: Annotated[
        bool,
        Setting(
            "At an address that no price list knows, such as a gateway's, take the list price of the model's name.",
            default_text="unknown there",
        ),
    ] = False
    rubric: Annotated[
        str | None,
        Setting("A packaged rubric's name, or your own FILE.md.", default_text="the agent file's RUBRIC, else writing"),
    ] = None
    show_instructions: Annotated[
        bool, Setting("Show the judge the agent's instructions.", default_text="show", off_flag="--hide-instructions")
    ] = True
    topology: Annotated[
        TopologyName,
        Setting(
            "The tournament: who meets whom. `none`: judge later with `rescore`.",
            default_text="arena; cyclic with --budget",
        ),
    ] = "arena"
    estimator: Annotated[
        EstimatorName, Setting("How matches become ranks.", default_text="tiers; pooled with --budget")
    ] = "tiers"
    judge_profile: Annotated[
        str | None,
        Setting(
            "With `--estimator pooled`, and in `best`: what is known of the judge beforehand, from a RUN's newest "
            "ranking or a FILE that `stats` wrote.",
            default_text="only what the groups ranked show",
            metavar="RUN|FILE",
            words=profile_text,
            also="JudgeProfile",
        ),
    ] = None
    reward: Annotated[RewardFrom, Setting("Make the rewards from the rank, or from the estimator's score.")] = "rank"
    order: Annotated[
        OrderPolicy | None,
        Setting(
            "The orders in which each pair is judged.",
            default_text="both; cyclic: one, and with calls left the other too",
        ),
    ] = None
    budget: Annotated[
        int | None,
        Setting(
            "Judge calls a query, spent on the best design for so many: new pairs in one order first, then the "
            "other order of the closest.",
            default_text="what the topology takes",
            metavar="CALLS",
            at_least=1,
        ),
    ] = None
    confidence: Annotated[
        float | None,
        Setting(
            "Stop judging a `cyclic` group once one rollout is best with this probability; 1: once nothing left "
            "could change it.",
            default_text="judge to the end; `best`: 0.95",
            above=0,
            at_most=1,
        ),
    ] = None
    judge_when: Annotated[
        Literal["always", "tied"],
        Setting(
            "tied: rank by the agent file's own reward(), and ask the judge only among rollouts that reward() "
            "leaves level."
        ),
    ] = "always"
    failed: Annotated[
        Literal["by-cause", "exclude", "last"],
        Setting("How failed rollouts rank. by-cause: last where the agent is at fault, else not at all."),
    ] = "by-cause"
    include: Annotated[
        tuple[str, ...],
        Setting(
            "Rank only these rollouts: K (of every query), QUERY/K, or QUERY/ (all of one); repeatable.",
            default_text="all",
            metavar="ROLLOUT",
            check=rollout_word,
        ),
    ] = ()
    exclude: Annotated[
        tuple[str, ...],
        Setting(
            "Leave these rollouts out of the ranking; written as for --include.",
            default_text="none",
            metavar="ROLLOUT",
            check=rollout_word,
        ),
    ] = ()
    shard: Annotated[
        str | None,
        Setting(
            "`run`: only part K of N of the queries, by a hash of their ids; `merge` makes one run of all parts.",
            default_text="all queries",
            metavar="K/N",
            check=shard_word,
        ),
    ] = None
    concurrency: Annotated[int, Setting("Rollouts at a time.", at_least=1)] = 16
    max_unjudged: Annotated[
        float,
        Setting(
            "Megabytes of transcripts that may wait for their judge; no further query begins meanwhile.",
            metavar="MB",
            above=0,
        ),
    ] = 256.0
    engine: Annotated[
        Literal["local", "ray"], Setting("Run the agent in this process, or in workers of a Ray cluster.")
    ] = "local"
    ray_address: Annotated[
        str | None,
        Setting(
            "The Ray cluster that `--engine ray` connects to.",
            default_text="RAY_ADDRESS, else the CPUs of this machine",
            metavar="ADDRESS",
        ),
    ] = None
    timeout: Annotated[
        float,
        Setting("Seconds that a rollout may take; waits for a rate limit do not count.", metavar="SECONDS", above=0),
    ] = 300.0
    request_timeout: Annotated[
        float,
        Setting(
            "Seconds that one attempt of a model call may take; in a stream, the time between two events.",
            metavar="SECONDS",
            above=0,
        ),
    ] = 120.0
    retries: Annotated[
        int, Setting("Further attempts of a model call that failed. A rate limit spends none.", at_least=0, at_most=100)
    ] = 5
    repairs: Annotated[
        int, Setting("Further turns in which a judge may mend a reply that cannot be used.", at_least=0, at_most=10)
    ] = 1
    grace: Annotated[
        float,
        Setting(
            "Seconds that rollouts under way may go on after Ctrl-C; a second Ctrl-C ends them.",
            metavar="SECONDS",
            at_least=0,
        ),
    ] = 30.0
    give_up: Annotated[
        float,
        Setting("Seconds without any reply after which an endpoint is asked no more.", metavar="SECONDS", above=0),
    ] = 300.0
    max_turns: Annotated[int, Setting("Model turns that a rollout may take.", at_least=1)] = 20
    max_failures: Annotated[
        int,
        Setting(
            "Up to so many failed or partly captured rollouts and incomplete groups, the exit code is still 0.",
            at_least=0,
        ),
    ] = 0
    seed: Annotated[int, Setting("The seed of every random choice of the harness.")] = 0
    redact: Annotated[
        tuple[str, ...],
        Setting(
            "A regular expression: text that it matches is neither kept nor judged. Case counts unless the "
            "pattern begins with (?i). Repeatable.",
            default_text="",
            metavar="PATTERN",
            check=pattern_word,
        ),
    ] = ()
    approve: Annotated[
        tuple[str, ...],
        Setting(
            "Approve the calls of this tool where they need approval; `all`, `none`: those of all tools, of none. "
            "Wins over the agent file's approve(). Repeatable.",
            default_text="the agent file's approve()",
            metavar="NAME",
        ),
    ] = ()
    tokens: Annotated[
        TokenPolicy,
        Setting(
            "Record the token ids and logprobs of each reply, for training: where the server tells them (auto), or "
            "else end the run (require)."
        ),
    ] = "off"
    upload_traces: Annotated[
        bool,
        Setting("Upload the rollouts' traces, unredacted, to OpenAI; needs OPENAI_API_KEY.", default_text="do not"),
    ] = False
    offline: Annotated[bool, Setting("Use the embedded model and judge: a self-test.", default_text="")] = False
    instructions: Annotated[
        Path | None,
        Setting(
            "Give the starting agent the text of this file as its instructions.",
            default_text="the agent's own",
            metavar="FILE",
        ),
    ] = None
    corpus: Annotated[
        Path | None,
        Setting("Search the .txt and .md files of this folder.", default_text="the packaged ones", metavar="DIR"),
    ] = None
    runs_dir: Annotated[Path, Setting("Where runs are kept.", metavar="DIR")] = Path("runs")


def _declarations() -> Mapping[str, Setting]:
    declarations: dict[str, Setting] = {}
    for declared in fields(Settings):
        type_, setting = get_args(declared.type)
        declarations[declared.name] = replace(setting, name=declared.name, type=type_, default=declared.default)
    return declarations


SETTINGS = _declarations()
"""Every setting's declaration by its name, in the order of `Settings`."""


ADDRESSES = ("base_url", "judge_base_url")
"""The settings that are addresses, which may hold a user and a password."""


_OF_ONE_COMMAND = ("engine", "ray_address")
"""Settings that change nothing of what a run holds. No archive says on which machines its agent is run."""
_ADDED_LATER = ("tokens", "judge_profile", "shard", "judge_tier", "max_unjudged", "judge_batch")
"""Settings that are written down only where they are used."""


def as_written(settings: Settings) -> dict[str, Any]:
    """Return settings as JSON fit to be written down: no user or password in an address."""
    plain = {name: _json(getattr(settings, name)) for name in SETTINGS if name not in _OF_ONE_COMMAND}
    for name in (name for name in _ADDED_LATER if getattr(settings, name) == SETTINGS[name].default):
        del plain[name]  # what is written of a run that does not use a setting is as it was before there was one
    return plain | {name: _without_each(plain[name]) for name in ADDRESSES}


def _json(value: Any) -> Any:
    if isinstance(value, tuple):
        return [*value]
    return str(value) if isinstance(value, Path) else value


def _without_each(urls: str | list[str] | None) -> str | list[str | None] | None:
    return [without_credentials(url) for url in urls] if isinstance(urls, list) else without_credentials(urls)
