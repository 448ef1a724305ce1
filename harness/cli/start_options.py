"""What the commands take that start a run and look at one."""

from dataclasses import dataclass
from pathlib import Path

import click

from harness.cli import completion, options

run_command = options.declared(
    "begin:begin_run",
    """Run an agent N times on each query, judge the runs pairwise, rank them, and archive everything.

    Keys come from OPENAI_API_KEY (and HARNESS_JUDGE_API_KEY for a judge elsewhere). With neither a key nor an
    address the packaged example agents run on an embedded model and judge, as a self-test.
    """,
    options.query_argument,
    options.run_agent_option,
    click.option("--queries", metavar="FILE", help="Many queries: JSONL, CSV or lines; - for stdin."),
    options.setting_options(
        *("n", "temperature", "top_p", "strict_temperature", "model", "base_url", "api"),
        *options.RANKING_SETTINGS,
        *("show_instructions", "concurrency", "judge_concurrency", "max_unjudged", "engine", "ray_address"),
        *("timeout", "judge_timeout", "request_timeout", "give_up", "grace", "retries", "repairs", "max_turns"),
        *("approve", "max_failures", "max_cost", "prices", "price_by_name", "seed", "shard", "redact", "tokens"),
        *("upload_traces", "offline", "instructions", "corpus", "runs_dir"),
    ),
    options.config_option,
    options.reuse_option,
    options.dry_run_option,
    options.wait_option,
    options.caller("json", "wide", "quiet", "report", "verbose"),
)
best_command = options.declared(
    "begin:begin_best",
    """Run an agent N times on a query and print the best answer alone; the runs are archived.

    Every pair of runs meets once before the judge until one is surely best; from 16 runs on by double elimination.
    A structured output is printed as JSON. A line on stderr says why the answer is the best. Exits 0 with an answer,
    even if other runs or the judge failed (without verdicts it is the answer of run 0, the anchor); 3 without.
    """,
    options.query_argument,
    options.run_agent_option,
    options.setting_options("confidence", default="0.95"),
    options.setting_options(
        *("n", "temperature", "top_p", "strict_temperature", "model", "base_url", "api"),
        *("judge_model", "judge_base_url", "judge_api", "judge_label", "judge_profile", "rubric", "show_instructions"),
        *("concurrency", "judge_concurrency", "timeout", "judge_timeout", "request_timeout", "give_up", "grace"),
        *("retries", "repairs", "max_turns", "approve", "max_cost", "prices", "price_by_name"),
        *("seed", "upload_traces", "offline", "instructions", "corpus", "runs_dir"),
    ),
    click.option(
        "--deadline",
        type=click.FloatRange(min=0, min_open=True, max=1e9),
        metavar="SECONDS",
        help="Answer within so many seconds: by what is there by then. Two thirds are for the runs, the rest for "
        "judging.",
    ),
    options.config_option,
    options.dry_run_option,
    options.caller("json", "quiet", "verbose"),
)
resume_command = options.declared(
    "begin:begin_resume",
    """Do what is missing of a run that was stopped: rollouts, verdicts, the ranking; or of a comparison.

    What is there is kept. The run's own settings hold; keys come from the environment. On a finished run it says so and
    costs nothing. A run that came from elsewhere gets keys only with its addresses named here, or with --trust-archive;
    a path or a module that it names as its agent is loaded only with --agent.
    """,
    click.argument(
        "run",
        metavar="[RUN]",
        required=False,
        shell_complete=completion.run_ids,
        help="As for the other commands. [default: the last unfinished]",
    ),
    options.agent_option("Where the run's agent is now. [default: where it was]"),
    options.flag("--retry-failed", "Run failed rollouts again, too."),
    options.flag("--accept-changed-agent", "Go on although the agent has changed; the archive notes the change."),
    options.setting_option("rubric", default="the text that the run holds"),
    options.setting_options("base_url", "judge_base_url", default="the run's own, and no other"),
    options.trust_option,
    options.setting_options(
        *("max_cost", "prices", "price_by_name", "concurrency", "judge_concurrency", "max_unjudged"),
        default="the run's own",
    ),
    options.setting_options("engine", "ray_address"),
    options.setting_options("instructions", default="the text that the run holds"),
    options.setting_options("approve", default="the run's own, then the agent file's approve()"),
    options.wait_option,
    options.caller("runs_dir", "json", "wide", "quiet", "report", "verbose"),
)
doctor_command = options.declared(
    "doctor:doctor",
    """Tell what `run` with the same options would use, whether it would work, and what to set where it would not.

    Without --live no model is asked and nothing is spent. A model server found on this machine is shown with the
    command that uses it; doctor never switches to one. Exits 2 if anything failed that would stop a run. With --judge
    only the judge is looked at: it is asked about each pair in both orders, and its verdicts are compared with the
    known answers.
    """,
    options.run_agent_option,
    options.setting_options(
        *("model", "base_url", "api", "judge_model", "judge_base_url", "judge_api", "judge_label", "rubric", "offline"),
        *("judge_timeout", "give_up", "approve"),
    ),
    options.config_option,
    options.flag("--live", "Ask the models too: one small call for each thing that only they can tell."),
    options.flag("--judge", "Ask the judge about pairs with known answers, and say how often it is right."),
    options.file_option(
        "--pairs",
        "With --judge: your own pairs, JSONL or CSV: query, a, b, label a|b|tie; or query, chosen, rejected. "
        "[default: packaged]",
    ),
    click.option(
        "--ports",
        metavar="LIST",
        help="Ports of this machine to look for model servers at, with commas; an empty list for none. "
        "[default: 8000,8080,11434,1234,4000,30000]",
    ),
    options.caller("json", "wide"),
)
_new_agent = options.declared(
    "new_files:new_agent",
    """Copy a packaged example agent into agents_config/, ready to edit.""",
    click.argument("name", help="What --agent will take: the file is agents_config/NAME.py."),
    click.option(
        "--from", "source", default="search", metavar="NAME", help="The packaged example to copy. [default: search]"
    ),
    options.overwrite_option,
)
agents_command = options.declared(
    "agents:agents",
    """List the agents there are: here in agents_config/, packaged, and installed entry points.

    Each is loaded as a run would load it now, with the same key and address; one that cannot be loaded is listed with
    the reason. `agents new` begins one of your own.
    """,
    options.caller("json", "wide"),
    cls=options.OrderedGroup,
    commands={"new": _new_agent},
    invoke_without_command=True,
    subcommand_metavar="[new NAME]",
)


@dataclass(frozen=True)
class ShownPart:
    """Which part of a query `show` is asked for: at most one of these, but for `transcript` and `brief`."""

    rollout: int | None
    match: int | None
    matches: bool
    matrix: bool
    rankings: bool
    transcript: bool
    """Of a rollout: the text of it that the judge saw."""
    brief: bool
    """Of a match: without transcripts."""


@dataclass(frozen=True)
class ComparisonFiles:
    """What a comparison is written to beside its page: Markdown for a pull request, and every match as CSV."""

    markdown: Path | None = None
    csv: Path | None = None


comparison_files = options.record(
    "files",
    ComparisonFiles,
    options.file_option("--markdown", "Of a comparison: write verdict, figures and the ten worst losses as Markdown."),
    options.file_option("--csv", "Of a comparison: write every match as a line of CSV."),
)


show_command = options.declared(
    "show:show",
    """Show a run from its archive: the ranking, or one rollout, the matches, or one match with its verdicts.

    Of a comparison: what it says, the figures of its sides, and the queries that were lost.
    """,
    options.run_argument,
    options.record(
        "part",
        ShownPart,
        click.option("--rollout", "-r", type=int, help="Show this rollout's path and answer."),
        options.flag("--transcript", "With --rollout: the very text of it that the judge saw."),
        options.flag("--matches", "The matches by round, with their numbers."),
        click.option(
            "--match", "-m", type=int, help="One match: every score, the judge's words, and both transcripts."
        ),
        options.flag("--matrix", "Who beat whom: by how much each rollout leads each other one."),
        options.flag("--brief", "With --match: leave out the transcripts."),
        options.flag("--rankings", "List the rankings of the run."),
    ),
    options.query_option(),
    click.option(
        "--sort",
        shell_complete=completion.sort_keys,
        metavar="KEY",
        help="A row a query, in the order of: number, id, winner, score, p_best, signal, flips, tokens, cost, time, "
        "failed, query, or a field of the queries' metadata. -KEY: the greatest first.",
    ),
    click.option("--all", "list_all", is_flag=True, help="A row a query, for all of them. [default: 20]"),
    click.option(
        "--columns", metavar="FIELDS", help="A row a query, with these fields of the queries' metadata, with commas."
    ),
    options.ranking_option(),
    options.caller("runs_dir", "json", "wide"),
)
why_command = options.declared(
    "why:why",
    """Say why rollout A is above rollout B, or B above A, and how sure that is.

    How they stand, the matches in which they met, the marks that decided, where their paths part, and what the judge
    said. If they never met: whom both met, and the command that makes them meet. `harness why 3 5` is about the last
    run.
    """,
    options.run_argument,
    click.argument("a", required=False, metavar="[A]", help="A rollout's number, from 0. [default: the first place]"),
    click.argument("b", required=False, metavar="[B]", help="Another one's. [default: the best beside A]"),
    options.query_option(),
    options.ranking_option(),
    options.file_option("--html", "Write the page of these two, with both paths, to send round."),
    options.caller("runs_dir", "json", "wide"),
)
ls_command = options.declared(
    "ls:ls", "List the runs and comparisons, oldest first.", options.caller("runs_dir", "json", "wide")
)
stats_command = options.declared(
    "stats:stats",
    """Show how far to believe the judge, for each ranking of a run and each judge in it; or for a comparison.

    Flips, position bias, ties, cycles, the pull of length, scores, noise, failures; and whether judging each pair in
    one order would do. Reads the archive alone.

    --curve plays every topology with every estimator on the verdicts of a judged round robin, and says how few calls
    would do. It asks no model.

    --profile keeps what the verdicts of a ranking (by default the newest) teach of the judge.
    """,
    options.run_argument,
    options.ranking_option("Only this ranking, by its id. [default: all of the run]"),
    options.flag("--curve", "Show accuracy against judge calls, from a judged round robin."),
    click.option("--against", metavar="ID", help="With --curve: the truth is this ranking."),
    click.option(
        "--truth",
        type=click.Choice(("labels", "reward", "order", "ranking", "itself")),
        help="With --curve: what ranks are measured by. `order`: the verdicts of the other order; `itself`: the round "
        "robin's own scores. [default: the first that there is of labels, reward, order, itself]",
    ),
    options.labels_option,
    options.file_option("--csv", "With --curve: write all points as CSV."),
    options.file_option("--svg", "With --curve: draw all points."),
    options.file_option("--profile", "Write what is learnt of the judge, for --judge-profile."),
    options.overwrite_option,
    options.setting_option("seed"),
    options.caller("runs_dir", "json", "wide"),
)
report_command = options.declared(
    "report:report",
    "Write the report.html of a run, or of a comparison, from its archive, and print where it is.",
    options.run_argument,
    options.ranking_option(),
    comparison_files,
    options.caller("runs_dir"),
)
