"""What the commands that export, import and keep runs take, and what their help says.

export, import, merge, validate, replay, schema.
"""

import click

from harness.cli import options
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
    click.option("--style", type=click.Choice(SFT_STYLES), help="sft: for whom. [default: trl]"),
    options.flag("--mixed", "groups, art: take groups in which several models spoke."),
    options.flag("--no-weak", "Leave out groups whose signal is weak."),
    options.flag("--include-anchor", "groups, art: take the anchor, which is off-policy."),
    options.flag("--include-failed", "groups, art: take failed rollouts that have a rank; atif: all."),
    options.flag("--include-flagged", "Take rollouts in which the harness found a fault."),
    options.flag("--include-cut", "Take rollouts whose answer the judge did not see whole."),
    click.option(
        "--split", metavar="NAME=SHARE,...", help="Split by query, e.g. train=0.9,test=0.1. [default: train=1]"
    ),
    options.flag("--allow-offline", "Export a self-test on the embedded offline parts."),
    options.flag("--force", "Write into a folder that holds files, over those of the same names."),
    options.caller("runs_dir", "json", "quiet"),
)
import_command = options.declared(
    "train:import_made",
    """Make a run of trajectories made elsewhere, to be ranked by rescore. No model is asked.

    Chat messages: an object a trajectory with `messages`, and optionally query_id, id, reward, reference, metadata.
    ATIF: Harbor's Agent Trajectory Interchange Format. Training data, as export writes it: groups (ART's, too) with
    their rewards, pairs, examples; its ranking comes along. Trajectories with one query id, else those with one first
    user message, form a group. Without --first-is-anchor a group has no anchor and is ranked without one.
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
        help="messages, atif, groups, art, sft, dpo or openai-preference. [default: as each object shows]",
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
    """Check every line, checksum, hash, reference and ranking of a run, or of a comparison. Exit code 5 if damaged.

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
