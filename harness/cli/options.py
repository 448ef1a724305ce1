"""Options that several commands share, under the same names."""

from pathlib import Path
from typing import Annotated

import typer

Include = Annotated[
    list[str] | None,
    typer.Option(help="Rank only these rollouts: K (of every query), QUERY/K, or QUERY/ (all of one); repeatable."),
]
Exclude = Annotated[
    list[str] | None, typer.Option(help="Leave these rollouts out of the ranking; written as for --include.")
]
Run = Annotated[str, typer.Argument(metavar="RUN", help="A run's id, a prefix of it, its folder, or `last`.")]
RunsDir = Annotated[Path | None, typer.Option(help="Where runs are kept. [default: runs]")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON on stdout.")]
Config = Annotated[Path | None, typer.Option(help="A YAML file of settings, named as the options here.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no notes on stderr; errors still.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Let the SDK's and the retries' own log through.")]
N = Annotated[int | None, typer.Option("-n", "--n", help="Rollouts a query, the anchor included. [default: 8]")]
Temperature = Annotated[
    float | None, typer.Option(help="The samples' temperature, 0 to 2; the anchor's is 0. [default: 0.8]")
]
TopP = Annotated[float | None, typer.Option(help="The samples' top_p. [default: the agent's own]")]
StrictTemperature = Annotated[
    bool | None,
    typer.Option("--strict-temperature", help="Stop where a model refuses a temperature. [default: go on]"),
]
Concurrency = Annotated[int | None, typer.Option(help="Rollouts at a time. [default: 16]")]
Timeout = Annotated[float | None, typer.Option(help="Seconds a rollout may take. [default: 300]")]
MaxTurns = Annotated[int | None, typer.Option(help="Model turns a rollout may take. [default: 20]")]
Seed = Annotated[int | None, typer.Option(help="Of every draw the harness makes. [default: 0]")]
Offline = Annotated[bool | None, typer.Option("--offline", help="Use the embedded model and judge: a self-test.")]
Corpus = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Search your own .txt/.md files instead of the packaged ones.")
]
OneQuery = Annotated[str | None, typer.Argument(help="What to ask. [default: the agent's first EXAMPLES entry]")]
JudgeModel = Annotated[
    list[str] | None,
    typer.Option(
        help="The judge's model; several times for a jury. [default: the agent's own, which favours itself; "
        "`offline-features`: embedded]",
        show_default=False,
    ),
]
JudgeBaseUrl = Annotated[
    list[str] | None,
    typer.Option(
        help="The judge's OpenAI-compatible address; one for a whole jury, or one a juror. [default: the agent's]",
        show_default=False,
    ),
]
Jury = Annotated[str | None, typer.Option(help="How a jury's scores are averaged: mean or median. [default: mean]")]
JudgeApi = Annotated[str | None, typer.Option(help="responses or chat, for the judge. [default: as --api]")]
JudgeLabel = Annotated[str | None, typer.Option(help="Names the judge in verdict keys. [default: model@host]")]
JudgeTimeout = Annotated[
    float | None, typer.Option(help="Seconds a verdict may take, retries included. [default: 120]")
]
JudgeConcurrency = Annotated[int | None, typer.Option(help="Judge calls at a time. [default: 32]")]
JudgeBudget = Annotated[
    int | None,
    typer.Option(metavar="TOKENS", help="Tokens of both transcripts together; 0: no limit. [default: 32000]"),
]
JudgeRepeats = Annotated[
    int | None, typer.Option(metavar="K", help="Verdicts a pair and order; their mean counts. [default: 1]")
]
Reuse = Annotated[
    list[str] | None, typer.Option(metavar="RUN", help="Take verdicts with the same key from this run. Repeatable.")
]
MaxCost = Annotated[
    float | None, typer.Option(metavar="USD", help="Buy nothing that would go beyond this. [default: no ceiling]")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Check everything, say what it would take, and stop.")]
Rubric = Annotated[str | None, typer.Option(help="A packaged rubric's name, or your own FILE.md. [default: writing]")]
Agent = Annotated[str, typer.Option("--agent", "-a", help="NAME (agents_config/NAME.py), module:attr or path.py:attr.")]
Model = Annotated[str | None, typer.Option(help="Model for every agent of the run. [default: the agent's own]")]
BaseUrl = Annotated[
    str | None, typer.Option(help="OpenAI-compatible address. [default: OPENAI_BASE_URL, else OpenAI's]")
]
Api = Annotated[
    str | None, typer.Option(help="responses or chat. [default: responses at OpenAI's own address, else chat]")
]
Judge = Annotated[
    str | None,
    typer.Option("--judge", help="How it is judged: pairwise, or ruler (a whole group at once). [default: pairwise]"),
]
Topology = Annotated[
    str | None,
    typer.Option(
        help="The tournament: arena, anchor, single, double, swiss, round_robin, cyclic, or none (judge later with "
        "`rescore`). [default: arena; cyclic with --budget]"
    ),
]
Budget = Annotated[
    int | None,
    typer.Option(
        metavar="CALLS",
        help="Judge calls a query, spent on the best design for so many: new pairs in one order first, then the other "
        "order of the closest. [default: what the topology takes]",
    ),
]
Estimator = Annotated[
    str | None,
    typer.Option(help="How matches become ranks: tiers, wins, margins or bt. [default: tiers; margins with --budget]"),
]
Reward = Annotated[
    str | None,
    typer.Option(help="Rewards from the rank, or from the estimator's score: rank or score. [default: rank]"),
]
Order = Annotated[
    str | None,
    typer.Option(
        help="Orders each pair is judged in: both, balanced or single. [default: both; cyclic: one, and with calls "
        "left the other too]"
    ),
]
Failed = Annotated[
    str | None,
    typer.Option(help="Failed rollouts: by-cause (the agent's fault: last), exclude, last. [default: by-cause]"),
]
AnchorFailed = Annotated[
    str | None, typer.Option(help="If the anchor failed: rank the others, or stop. [default: rank]")
]
JudgeWhen = Annotated[
    str | None,
    typer.Option(
        help="always, or tied: rank by the agent file's own reward(), and ask the judge only among rollouts that it "
        "leaves level. [default: always]"
    ),
]
MaxFailures = Annotated[
    int | None, typer.Option(help="Failed rollouts plus incomplete groups up to here still exit 0. [default: 0]")
]
ShowInstructions = Annotated[
    bool | None,
    typer.Option(
        "--show-instructions/--hide-instructions", help="Let the judge see the agent's brief. [default: show]"
    ),
]
Redact = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PATTERN",
        help="A regex, case counts unless it begins with (?i): what fits is neither kept nor judged. Repeatable.",
    ),
]
