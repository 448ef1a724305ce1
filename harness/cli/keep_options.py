"""What the commands take that judge again, train and keep."""

import click

from harness.cli import completion, options
from harness.core.settings import SETTINGS
from harness.formats.training.rules import EXPORT_FORMATS, PAIR_CHOICES, SFT_STYLES

export_command = options.declared(
    "train:export_ranked",
    """Write ranked rollouts as training data, with a data card that counts what was left out and why.

    groups: a group a line, with rewards and advantages. sft: the best of each query. dpo: pairs for TRL.
    openai-preference: pairs for OpenAI. art: groups for ART. atif: a trajectory a
    rollout, for Harbor, of any run. parquet: tables. csv: a rollout a row. No model is asked.
    """,
    options.runs_argument("[RUN]...", "Runs: ids, prefixes, folders, or `last`. [default: last]"),
    click.option("--format", "format_", type=click.Choice(EXPORT_FORMATS), required=True, help="What to write."),
    click.option(
        "--output", "-o", "to", type=options.FILE, metavar="DIR", required=True, help="The folder to write to."
    ),
    options.ranking_option("A ranking's id. [default: the newest of each run]"),
    click.option("--pairs", type=click.Choice(PAIR_CHOICES), help="Preferences: which rollouts. [default: best-worst]"),
    click.option("--per-query", type=click.IntRange(1), metavar="N", help="Preferences: the most pairs of a query."),
    click.option(
        "--confidence",
        type=click.FloatRange(0, 1),
        metavar="P",
        help="Preferences: the least p(better above worse) of pairs that were not judged in both orders. [default: "
        "0.95 in runs judged in one order; in other runs such pairs are left out]",
    ),
    click.option(
        "--least-margin",
        type=click.FloatRange(0),
        metavar="POINTS",
        help="Preferences: the least difference. [default: 0]",
    ),
    options.flag("--final-answer", "dpo: final answers alone, of rollouts that share all before them."),
    click.option(
        "--style",
        type=click.Choice(SFT_STYLES),
        help="sft: for whom. [default: trl, or trl-turns where trl lacks turns]",
    ),
    options.flag("--step-advantages", "groups, atif: what each turn was worth, as `harness credit` says."),
    options.flag("--mixed", "groups, art: take groups in which several models spoke."),
    options.flag("--no-weak", "Leave out groups whose signal is weak."),
    options.flag("--include-anchor", "groups, art: take the anchor, which is off-policy."),
    options.flag("--include-failed", "groups, art: take failed rollouts that have a rank; atif: all."),
    options.flag("--include-flagged", "Take rollouts in which the harness found a fault."),
    options.flag("--include-cut", "Take rollouts whose answer the judge did not see whole."),
    options.flag("--include-varied", "Take rollouts to which --vary gave other instructions or another model."),
    options.flag("--include-edited", "Take branches of which a person edited a step (`harness fork --edit`)."),
    click.option(
        "--split", metavar="NAME=SHARE,...", help="Split by query, e.g. train=0.9,test=0.1. [default: train=1]"
    ),
    options.flag("--allow-offline", "Export a self-test on the embedded offline parts."),
    options.flag("--force", "Write into a folder that holds files, over those of the same names."),
    options.caller("runs_dir", "json", "quiet"),
)
gateway_command = options.declared(
    "gateway:serve_sessions",
    """Record the model calls of any program, in any language, as rollouts of a run, until Ctrl-C ends it.

    A program calls http://HOST:PORT/s/SESSION/v1 as it calls OpenAI (Chat Completions and Responses, streams too),
    and ends its session by POST /s/SESSION/close with {"answer", "query", "group"?, "reward"?}: the reply is the
    rollout. Sessions with one `group`, else those with one query, form a group; `rescore` judges them.
    OPENAI_API_KEY goes to the server of the model alone. With RUN, a run of the gateway, it goes on with that run.
    """,
    click.argument(
        "run",
        metavar="[RUN]",
        required=False,
        shell_complete=completion.run_ids,
        help="The gateway's run to go on with. [default: a new run]",
    ),
    options.agent_option("The agent whose server is called, and whose rubric judges. [default: none]"),
    click.option("--upstream", metavar="URL", help="The server of the model. [default: the agent's]"),
    click.option(
        "--host",
        default="127.0.0.1",
        help="Where to listen; beyond this machine only with --token. [default: 127.0.0.1]",
    ),
    click.option("--port", type=click.IntRange(0, 65535), default=8100, help="0: a free one. [default: 8100]"),
    click.option("--token", metavar="SECRET", help="What each request has to bear, as the client's api_key."),
    options.setting_options("tokens", default="auto"),
    options.setting_options(
        "api", "request_timeout", "grace", "rubric", "prices", "price_by_name", "redact", "runs_dir"
    ),
    options.config_option,
    options.caller("quiet"),
)
import_command = options.declared(
    "train:import_made",
    """Make a run of trajectories made elsewhere, to be ranked by rescore. No model is asked.

    Chat messages: an object a trajectory with `messages`, and optionally query_id, id, reward, reference, metadata.
    ATIF: Harbor's Agent Trajectory Interchange Format. Training data, as export writes it: groups (ART's, too) with
    their rewards, pairs, examples; its ranking comes along. Files of TRL, verifiers, NeMo Gym, ShareGPT, Alpaca,
    OpenAI's Evals, promptfoo, Inspect, the Responses API and OTLP: their rewards are kept, and rank nothing.
    Trajectories with one query id, else those with one first user message, form a group. Without --first-is-anchor a
    group has no anchor and is ranked without one.
    """,
    options.arguments(
        "files",
        "FILE...",
        "JSONL, JSON with one trajectory or a list of them, or a folder of JSONL.",
        type=options.FILE,
    ),
    click.option(
        "--format",
        "format_",
        metavar="FORMAT",
        help="The format, such as messages or verifiers. [default: as each object shows]",
    ),
    options.flag("--first-is-anchor", "The first trajectory of each query is the greedy one."),
    click.option("--name", default="imported", help="A name for the agent that made them. [default: imported]"),
    options.setting_options("redact", "runs_dir"),
    options.caller("json"),
)
merge_command = options.declared(
    "train:merge_archived",
    """Make one run of several, such as those of `run --shard`, by copying their records. Nothing is asked or bought.

    Each ranking that all runs have becomes one of all groups; `pooled` learns the judge from all of them anew. Every
    record is checked. The runs stay as they are.
    """,
    options.runs_argument(
        "RUN...", "Runs of one agent, settings, judge and rubric on different queries: ids, prefixes, folders."
    ),
    click.option(
        "--output", "-o", metavar="RUN", help="The new run: a name in --runs-dir, or a path. [default: an id]"
    ),
    options.caller("runs_dir", "json", "quiet", "report"),
)
validate_command = options.declared(
    "train:validate_archived",
    """Check every line, checksum, hash, reference and ranking of what is archived. Exit code 5 if damaged.

    A notice (a last line cut off by a kill, a text that nothing refers to, a ranking cut short) is no damage.
    """,
    options.run_argument,
    options.flag("--repair", "Move damaged lines into the run's folder damaged/; the rest stays."),
    options.caller("runs_dir", "json"),
)
replay_command = options.declared(
    "replay:replay",
    """Drive the agent's own code on the model replies that a run recorded. To judge a run again use rescore.

    No model is asked and nothing is written. Every request (instructions, input, tools, handoffs, output schema) is
    compared with the recorded one, and the first divergence is shown with a diff. Exits 0 only if all is identical,
    1 if anything diverged.
    """,
    options.run_argument,
    click.option("--rollout", "-r", type=int, help="Only this rollout of each query. [default: all]"),
    options.query_option("Only this query, by its id. [default: all]"),
    options.flag("--live-tools", "Run the tools again. [default: take what they gave]"),
    options.agent_option("The agent, or a changed one, as for run. [default: the run's own]"),
    options.trust_option,
    options.caller("runs_dir", "json", "verbose"),
)
schema_command = options.declared(
    "schema:schema",
    "Print the JSON Schema of the archive's records, by the `kind` that stands on each line.",
    click.argument("record", required=False, help="query, rollout, verdict, group, ... [default: all]"),
)


_TOPOLOGIES = tuple(name for name in SETTINGS["topology"].choices if name not in {"none", "auto"})
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
    options.setting_option("estimator"),
    options.setting_option("order"),
    options.setting_option("seed"),
    options.caller("json", "wide"),
)
judges_command = options.declared(
    "stats:judges",
    """Show the judges of a run side by side: which one to take, and for how much.

    A column for each judge, rubric and design that ranked the run: agreement with labels and with reward(), flips, own
    noise, the pull of length, calls and cost; and Kendall's tau of each two. Reads the archive alone, but for
    --planted.
    """,
    options.run_argument,
    click.option(
        "--ranking", "rankings", metavar="ID", multiple=True, help="Only these rankings, by id. [default: all]"
    ),
    options.labels_option,
    options.flag(
        "--planted",
        "Ask each judge also about 12 pairs whose defect only the whole record shows, in both orders; the verdicts are "
        "kept with the run.",
    ),
    click.option(
        "--judge-agent",
        "judge_agents",
        metavar="AGENT",
        multiple=True,
        help="With --planted: the agent that judged, where the run was not begun with it.",
    ),
    options.dry_run_option,
    options.trust_option,
    options.caller("runs_dir", "json", "wide"),
)
label_command = options.declared(
    "label:label",
    """Show two answers, blind, and ask which is better; keep what you say in the labels.jsonl of run or comparison.

    The pairs come first of which the judge is least sure; one in ten is drawn at random. Nothing tells which rollout an
    answer is of, nor what the judge said. Stop when you like: `stats` and `judges` then say how far the judge agrees
    with you, and `doctor --judge --pairs` tries other judges on your labels.

    Pairs of a comparison are drawn by known chances, where they tell most; `compare` and `gate` then say what people
    would say.
    """,
    options.run_argument,
    options.ranking_option("Ask where this ranking is least sure. [default: the newest]"),
    options.query_option("Ask about this query alone."),
    click.option("--next", "most", type=click.IntRange(1), metavar="K", help="Ask about so many pairs. [default: all]"),
    click.option("--as", "by", metavar="NAME", help="Who is asked: each person labels the same pairs."),
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
