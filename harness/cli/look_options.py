"""What the commands take that look at a run."""

from dataclasses import dataclass
from pathlib import Path

import click

from harness.cli import completion, options


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
    credit: bool
    """Of a rollout: what each step was worth."""
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
        options.flag("--credit", "With --rollout: what each step of it was worth, as `harness credit` says it."),
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
credit_command = options.declared(
    "credit:credit",
    """Say which step won or lost each rollout: what each model call was worth, and how sure that is.

    Reads the archive alone. Rollouts of a query that pass through the same state tell what each way from there came to.
    The value of a state is the mean margin of the rollouts through it; a step's credit is how much it changed.
    """,
    options.run_argument,
    click.option(
        "--state",
        type=click.Choice(("requests", "tools")),
        default="requests",
        help="What makes two states one: equal requests to the model, but for ids and spaces; or the same results of "
        "tools, in any order. [default: requests]",
    ),
    options.query_option("Only this query, with all steps. [default: all queries]"),
    options.flag("--graphviz", "Print the trees of states in Graphviz's language, as for `dot -Tsvg`."),
    options.ranking_option(),
    options.caller("runs_dir", "json", "wide"),
)
ls_command = options.declared(
    "ls:ls", "List the runs, comparisons and improvements, oldest first.", options.caller("runs_dir", "json", "wide")
)
stats_command = options.declared(
    "stats:stats",
    """Show how far to believe the judge, for each ranking of a run and each judge in it; or for a comparison.

    Flips, position bias, ties, cycles, the pull of length, scores, noise, failures; and whether judging each pair in
    one order would do. Reads the archive alone, unless --embeddings-model is given.

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
    click.option(
        "--embeddings-model",
        metavar="NAME",
        help="Ask this model, at OPENAI_BASE_URL (else OpenAI's), how far the answers of a query differ in meaning.",
    ),
    options.setting_option("seed"),
    options.caller("runs_dir", "json", "wide"),
)
plan_command = options.declared(
    "plan:plan",
    """Say how many rollouts a query, and which recipes of `run --vary`, are enough, by a run as the pilot.

    Reads the archive alone. What a run would cost is said by `run --dry-run`.
    """,
    options.run_argument,
    click.option(
        "--vary",
        type=click.Choice(["auto"]),
        default="auto",
        expose_value=False,  # there is one way so far
        help="Which recipes to name; auto: all of the pilot's but those that gain too little. [default: auto]",
    ),
    options.ranking_option(),
    options.caller("runs_dir", "json", "wide"),
)
report_command = options.declared(
    "report:report",
    "Write the report.html of a run, a comparison or an improvement from its archive, and print where it is.",
    options.run_argument,
    options.ranking_option(),
    comparison_files,
    options.caller("runs_dir"),
)
