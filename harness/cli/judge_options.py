"""What the commands that judge again take, and what their help says: rescore, rank, judges, label, rubric."""

import click

from harness.cli import completion, options
from harness.core.settings import SETTINGS

_TOPOLOGIES = tuple(name for name in SETTINGS["topology"].choices if name != "none")
"""`none` ranks nothing: that is for runs that are judged later."""

rescore_command = options.declared(
    "begin:begin_rescore",
    """Judge an archived run again, with the run's own settings except for those given here.

    Verdicts that the archive holds are reused, only the others are bought; failed verdicts are asked for again. The
    rollouts are not touched, and the new ranking stands beside the old ones. Each of several runs gets its own
    ranking, and --max-cost holds for all together. Only options and --config change the
    settings, not HARNESS_* in the environment.
    """,
    options.runs_argument("[RUN]...", "Ids, prefixes of ids, folders, or `last`. [default: last]"),
    options.setting_options(
        *options.RANKING_SETTINGS,
        *("include", "exclude", "show_instructions", "judge_concurrency", "judge_timeout", "max_failures", "max_cost"),
        *("prices", "price_by_name", "request_timeout", "give_up", "grace", "retries", "repairs"),
        default="the run's own",
    ),
    options.reuse_option,
    options.flag("--free", "Buy nothing: groups that would need more verdicts stay incomplete."),
    options.dry_run_option,
    options.trust_option,
    options.config_option,
    options.wait_option,
    options.caller("runs_dir", "json", "wide", "quiet", "report", "verbose"),
)
rank_command = options.declared(
    "rank:rank",
    """Rank any table of pairwise scores, a judge's or people's, as a run's rollouts are ranked.

    Entrant 0 is the anchor. Scores are best on a scale of 0 to 10, greater is better.
    """,
    click.argument(
        "table",
        metavar="TABLE.json",
        type=options.FILE,
        help='{"n": N, "scores": {"i,j": [score_i, score_j]}}, i shown first.',
    ),
    click.option(
        "--topology",
        metavar=f"[{'|'.join(_TOPOLOGIES)}]",
        shell_complete=completion.among(*_TOPOLOGIES),
        help="The tournament: who meets whom. [default: arena]",
    ),
    options.setting_option("estimator", default="tiers"),
    options.setting_option("order"),
    options.setting_option("seed"),
    options.caller("json", "wide"),
)
judges_command = options.declared(
    "stats:judges",
    """Show the judges of a run side by side: which one to take, and for how much.

    A column for each judge, rubric and design that ranked the run: agreement with labels and with reward(), flips, own
    noise, the pull of length, calls and cost; and Kendall's tau of each two. Reads the archive alone.
    """,
    options.run_argument,
    click.option(
        "--ranking", "rankings", metavar="ID", multiple=True, help="Only these rankings, by id. [default: all]"
    ),
    options.labels_option,
    options.caller("runs_dir", "json", "wide"),
)
label_command = options.declared(
    "label:label",
    """Show two answers of a run, blind, and ask which is better; keep what you say in the run's labels.jsonl.

    The pairs come first of which the judge is least sure; one in ten is drawn at random. Nothing tells which rollout an
    answer is of, nor what the judge said. Stop when you like: `stats` and `judges` then say how far the judge agrees
    with you, and `doctor --judge --pairs` tries other judges on your labels.
    """,
    options.run_argument,
    options.ranking_option("Ask where this ranking is least sure. [default: the newest]"),
    options.query_option("Ask about this query alone."),
    options.flag("--paths", "Show the paths, too, and not the answers alone."),
    options.setting_option("seed"),
    options.caller("runs_dir", "wide"),
)
_rubric_commands = {
    "show": options.declared(
        "rubric:show_rubric",
        "List the packaged rubrics; with NAME, print what the judge is told by it and the schema of its reply.",
        click.argument("name", required=False, help="A packaged rubric's name, or a FILE.md."),
        options.caller("json", "wide"),
    ),
    "check": options.declared(
        "rubric:print_faults",
        "Tell everything that is wrong with a rubric, by file and line; exit code 0 if nothing is, else 2.",
        click.argument("file", help="A rubric of your own, or a packaged one."),
    ),
    "new": options.declared(
        "rubric:new_rubric",
        "Copy a packaged rubric into a file of your own, ready to edit.",
        click.argument("file", type=options.FILE, help="The file to write."),
        click.option(
            "--from",
            "source",
            default="writing",
            metavar="NAME",
            help="The packaged rubric to copy. [default: writing]",
        ),
        options.overwrite_option,
    ),
}
rubric_command = options.OrderedGroup(
    "rubric", _rubric_commands, help="List and print rubrics; begin one of your own, and check it."
)
