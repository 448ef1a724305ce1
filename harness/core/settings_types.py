"""The settings as keyword arguments, for `Unpack`: type checkers and editors know their names and types."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, TypedDict

from harness.core.judge_profile import JudgeProfile

# Generated below: python -m tests.cli.test_settings_table


class LaterSettings(TypedDict, total=False):
    """What may be named for a comparison, and when a run goes on."""

    base_url: str | Sequence[str] | None
    """The OpenAI-compatible address of the model; repeat the option for several servers of one model. [default:
    OPENAI_BASE_URL, else OpenAI's]"""
    judge_base_url: str | Sequence[str] | None
    """The judge's OpenAI-compatible address; one for a whole jury, or one for each juror, in order. [default: the
    agent's]"""
    judge_concurrency: int
    """Judge calls at a time. [default: 32; at least 1]"""
    max_cost: float | None
    """USD that one command may spend, agent and judge together. [default: no ceiling; at least 0]"""
    prices: Sequence[str] | Mapping[str, str | Sequence[float]]
    """What a model costs, in USD a million tokens read, written and read from the cache (else as read). Wins over the
    list price. Repeatable; in a file `prices:`, a mapping. [default: list prices]"""
    price_by_name: bool
    """At an address that no price list knows, such as a gateway's, take the list price of the model's name. [default:
    unknown there]"""
    rubric: str | None
    """A packaged rubric's name, or your own file. [default: the agent file's RUBRIC, else writing]"""
    concurrency: int
    """Rollouts at a time. [default: 16; at least 1]"""
    approve: Sequence[str]
    """Approve the calls of this tool where they need approval; `all`, `none`: those of all tools, of none. Wins over
    the agent file's approve(). Repeatable. [default: the agent file's approve()]"""
    instructions: str | Path | None
    """Give the starting agent the text of this file as its instructions. [default: the agent's own]"""


class ResumeSettings(LaterSettings, total=False):
    """The settings that may be named when a run goes on."""

    max_unjudged: float
    """Megabytes of transcripts that may wait for their judge; no further query begins meanwhile. [default: 256; above
    0]"""
    engine: Literal["local", "ray"]
    """Run the agent in this process, or in workers of a Ray cluster. [default: local]"""
    ray_address: str | None
    """The Ray cluster that `engine ray` connects to. [default: RAY_ADDRESS, else the CPUs of this machine]"""
    ship: Sequence[str]
    """Send the Ray cluster only these files beside the agent's: a pattern such as `tools/**/*.py`. Repeatable.
    [default: the folder of the agent's file]"""
    isolate: Literal["none", "process"]
    """process: make each rollout in a process, a working folder and a temporary folder of its own; a file with
    REUSES_PROCESS, or a packaged agent, shares the process with earlier rollouts. Else rollouts share the process,
    its files and the agent's module. [default: rollouts share a process]"""
    memory: int | None
    """With `isolate process`: megabytes that the process of a rollout may take, the loaded agent included. [default:
    no limit; 1 to 1e+09]"""


class ComparedSettings(LaterSettings, total=False):
    """Every setting of a comparison but `n`."""

    temperature: float
    """The samples' temperature. [default: 0.8; 0 to 2]"""
    anchor_temperature: float
    """The anchor's temperature; training wants that of the samples. [default: 0; 0 to 2]"""
    top_p: float | None
    """The samples' top_p. [default: the agent's own; above 0, at most 1]"""
    vary: str | Mapping[str, object] | None
    """How samples differ: `temperature`, `effort=low,high`, `instructions=FILE` (texts to put before the agent's
    instructions), `instructions=4` (so many paraphrases), `models=a:2,b:1`, several joined by x, or `auto` (the first
    that works). Unless temperature is among them, the anchor is the agent as it stands. [default: by temperature]"""
    strict_temperature: bool
    """Stop where a model refuses a temperature. [default: go on]"""
    model: str | None
    """The model of every agent of the run. [default: the agent's own]"""
    api: Literal["responses", "chat"] | None
    """Which of OpenAI's APIs to call. [default: responses at OpenAI's own address, else chat]"""
    judge_model: str | Sequence[str] | None
    """The judge's model; repeat the option for a jury. [default: the agent's own, which favours itself;
    `offline-features`: embedded]"""
    judge_agent: str | Sequence[str] | object | None
    """An agent that judges, named as for agent: it looks into the whole record and the files of both sides.
    Repeatable; with judge_model a jury of both. [default: a model judges]"""
    judge_agent_when: Literal["always", "unsure"]
    """unsure: with judge_model, the model judges first, and the agent only the pairs whose better side the fit of the
    group names with less than 90 %, or on which the model's orders flip. [default: always]"""
    judge_max_turns: int
    """Model turns that a judge agent may take for a verdict. [default: 20; at least 1]"""
    jury: Literal["mean", "median"]
    """How the scores of a jury are averaged. [default: mean]"""
    judge_api: Literal["responses", "chat"] | None
    """Which of OpenAI's APIs to call for the judge. [default: as api]"""
    judge_label: str | None
    """The judge's name in verdict keys. [default: model@host]"""
    judge_timeout: float
    """Seconds that a verdict may take, retries included; waits for a rate limit do not count. [default: 300; 1800
    with judge_tier flex; above 0]"""
    judge_tier: Literal["default", "flex", "flex,default"]
    """The service tier of judge calls. flex: slower, at half the list price; `flex,default`: bought at the ordinary
    tier where flex has no room. [default: default]"""
    judge_budget: int
    """Tokens that the judge reads of both transcripts together, at least 200; 0: no limit. [default: 32000]"""
    judge_repeats: int
    """Verdicts for each pair and order; their mean counts. [default: 1; 1 to 100]"""
    require_citations: bool
    """Ask the judge to cite side, step and words for each remark; a verdict whose remarks cite what is not there
    fails after the repair turn. [default: not asked]"""
    show_instructions: bool
    """Show the judge the agent's instructions. [default: show]"""
    timeout: float
    """Seconds that a rollout may take; waits for a rate limit do not count. [default: 300; above 0]"""
    request_timeout: float
    """Seconds that one attempt of a model call may take; in a stream, the time between two events. [default: 120;
    above 0]"""
    retries: int
    """Further attempts of a model call that failed. A rate limit spends none. [default: 5; 0 to 100]"""
    repairs: int
    """Further turns in which a judge may mend a reply that cannot be used. [default: 1; 0 to 10]"""
    grace: float
    """Seconds that rollouts under way may go on after Ctrl-C; a second Ctrl-C ends them. [default: 30; at least 0]"""
    give_up: float
    """Seconds without any reply after which an endpoint is asked no more. [default: 300; above 0]"""
    max_turns: int
    """Model turns that a rollout may take. [default: 20; at least 1]"""
    max_failures: int
    """Up to so many failed or partly captured rollouts and incomplete groups, the exit code is still 0. [default: 0;
    at least 0]"""
    seed: int
    """The seed of every random choice of the harness. [default: 0]"""
    redact: Sequence[str]
    """A regular expression: text that it matches is neither kept nor judged. Case counts unless the pattern begins
    with (?i). Repeatable."""
    upload_traces: bool
    """Upload the rollouts' traces, unredacted, to OpenAI; needs OPENAI_API_KEY. [default: do not]"""
    offline: bool
    """Use the embedded model and judge: a self-test."""
    corpus: str | Path | None
    """Search the .txt and .md files of this folder. [default: the packaged ones]"""
    runs_dir: str | Path
    """Where runs are kept. [default: runs]"""


class CompareSettings(ComparedSettings, total=False):
    """The settings of a comparison."""

    n: int
    """Rollouts a query, the anchor included. [default: 8; 1 to 256]"""


class CommonSettings(ComparedSettings, ResumeSettings, total=False):
    """Every setting but `n` and `judge`."""

    anchor_failed: Literal["rank", "stop"]
    """If the anchor failed: rank the other rollouts, or stop. [default: rank]"""
    judge_batch: bool
    """Judge by the provider's batches, at half the list price: the command ends when they are handed in, and `resume`
    goes on with what came back. [default: judge now]"""
    topology: Literal["arena", "anchor", "single", "double", "swiss", "round_robin", "cyclic", "none", "auto"]
    """The tournament: who meets whom. `auto`: from 6 rollouts on cyclic, for as many calls as arena makes at most;
    else arena. `none`: judge later with `rescore`. [default: arena; cyclic with budget]"""
    estimator: Literal["tiers", "wins", "margins", "bt", "pooled"]
    """How matches become ranks. `tiers` is ArenaRL's. [default: pooled]"""
    judge_profile: str | JudgeProfile | None
    """With `estimator pooled`, and in `best`: what is known of the judge beforehand, from a RUN's newest ranking, a
    FILE that `stats` wrote, or its kind: `sharp`, `usual`, `noisy`, `relative` (no absolute level). [default: only
    what the groups ranked show]"""
    reward: Literal["rank", "score"]
    """Make the rewards from the rank, or from the estimator's score. [default: rank]"""
    order: Literal["both", "balanced", "single"] | None
    """The orders in which each pair is judged. [default: both; cyclic: one, and with calls left the other too]"""
    budget: int | None
    """Judge calls a query, spent on the best design for so many: new pairs in one order first, then the other order
    of the closest. [default: what the topology takes; at least 1]"""
    confidence: float | None
    """Stop judging a `cyclic` group once one rollout is best with this probability; 1: once nothing left could change
    it. [default: judge to the end; `best`: 0.95; above 0, at most 1]"""
    judge_when: Literal["always", "tied"]
    """tied: rank by the agent file's own reward(), and ask the judge only among rollouts that reward() leaves level.
    [default: always]"""
    failed: Literal["by-cause", "exclude", "last"]
    """How failed rollouts rank. by-cause: last where the agent is at fault, else not at all. [default: by-cause]"""
    include: Sequence[str]
    """Rank only these rollouts: K (of every query), QUERY/K, or QUERY/ (all of one); repeatable. [default: all]"""
    exclude: Sequence[str]
    """Leave these rollouts out of the ranking; written as for include. [default: none]"""
    shard: str | None
    """`run`: only part K of N of the queries, by a hash of their ids; `merge` makes one run of all parts. [default:
    all queries]"""
    tokens: Literal["off", "auto", "require"]
    """Record the token ids and logprobs of each reply, for training: where the server tells them (auto), or else end
    the run (require; `gateway` answers 400). [default: off]"""


class RunSettings(CommonSettings, total=False):
    """Every setting of a run."""

    n: int
    """Rollouts a query, the anchor included. [default: 8; 1 to 256]"""
    judge: Literal["pairwise", "ruler"]
    """Judge two rollouts at a time (pairwise), or a whole group at once (ruler). [default: pairwise]"""
