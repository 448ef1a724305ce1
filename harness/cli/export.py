"""`harness export`: ranked rollouts as training data."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.cli import completion, options
from harness.core.errors import NothingRankable, UsageError
from harness.core.plurals import counted
from harness.formats.training.rules import EXPORT_FORMATS, PAIR_CHOICES, SFT_STYLES

if TYPE_CHECKING:
    from harness.formats.training.rules import ExportRules, Included
    from harness.pipeline.exporting.export import ExportResult

_ONLY_FOR: Sequence[tuple[Sequence[str], Sequence[str]]] = (
    (("pairs", "per_query", "confidence", "least_margin"), ("dpo", "openai-preference")),
    (("final_answer",), ("dpo",)),
    (("style",), ("sft",)),
    (("mixed", "include_anchor"), ("groups", "art")),
    (("include_failed",), ("groups", "art", "atif")),
    (
        ("no_weak", "include_flagged", "include_cut"),
        tuple(n for n in EXPORT_FORMATS if n not in {"atif", "parquet", "csv"}),
    ),
)
"""Options, and the formats that have a use for them."""
_INCLUDED: Sequence[Included] = ("anchor", "failed", "flagged", "cut")
_DEFAULTS: Mapping[str, Any] = {"pairs": PAIR_CHOICES[0], "style": SFT_STYLES[0], "least_margin": 0.0}


@click.command()
@click.argument(
    "runs",
    metavar="[RUN]...",
    nargs=-1,
    shell_complete=completion.run_ids,
    help="Runs: ids, prefixes, folders, or `last`. [default: last]",
)
@click.option("--format", "format_", type=click.Choice(EXPORT_FORMATS), required=True, help="What to write.")
@click.option("--output", "-o", "to", type=options.FILE, metavar="DIR", required=True, help="The folder to write to.")
@click.option("--ranking", metavar="ID", help="A ranking's id. [default: the newest of each run]")
@click.option("--pairs", type=click.Choice(PAIR_CHOICES), help="Preferences: which rollouts. [default: best-worst]")
@click.option("--per-query", type=click.IntRange(1), metavar="N", help="Preferences: the most pairs of a query.")
@click.option(
    "--confidence",
    type=click.FloatRange(0, 1),
    metavar="P",
    help="Preferences: the least p(better above worse) of pairs that were not judged in both orders. [default: 0.95 in "
    "runs judged in one order; in other runs such pairs are left out]",
)
@click.option(
    "--least-margin", type=click.FloatRange(0), metavar="POINTS", help="Preferences: the least difference. [default: 0]"
)
@click.option("--final-answer", is_flag=True, help="dpo: final answers alone, of rollouts that share all before them.")
@click.option("--style", type=click.Choice(SFT_STYLES), help="sft: for whom. [default: trl]")
@click.option("--mixed", is_flag=True, help="groups, art: take groups in which several models spoke.")
@click.option("--no-weak", is_flag=True, help="Leave out groups whose signal is weak.")
@click.option("--include-anchor", is_flag=True, help="groups, art: take the anchor, which is off-policy.")
@click.option("--include-failed", is_flag=True, help="groups, art: take failed rollouts that have a rank; atif: all.")
@click.option("--include-flagged", is_flag=True, help="Take rollouts in which the harness found a fault.")
@click.option("--include-cut", is_flag=True, help="Take rollouts whose answer the judge did not see whole.")
@click.option("--split", metavar="NAME=SHARE,...", help="Split by query, e.g. train=0.9,test=0.1. [default: train=1]")
@click.option("--allow-offline", is_flag=True, help="Export a self-test on the embedded offline parts.")
@click.option("--force", is_flag=True, help="Write into a folder that holds files, over those of the same names.")
@options.setting_option("runs_dir")
@options.json_option
@options.quiet_option
@click.pass_obj
def export(
    environ: Mapping[str, str],
    runs: Sequence[str],
    to: Path,
    ranking: str | None,
    split: str | None,
    runs_dir: Path | None,
    *,
    allow_offline: bool,
    force: bool,
    as_json: bool,
    quiet: bool,
    **chosen: Any,
) -> None:
    """Write ranked rollouts as training data, with a data card that counts what was left out and why.

    groups: a group a line, with rewards and advantages. sft: the best of each query. dpo: pairs for TRL.
    openai-preference: pairs for OpenAI. art: groups for ART. atif: a trajectory a
    rollout, for Harbor, of any run. parquet: tables. csv: a rollout a row. No model is asked.
    """
    from harness.archive.layout import find_run
    from harness.cli.archived_run import runs_folder
    from harness.cli.output import print_json, say
    from harness.cli.piece_progress import shown_progress
    from harness.formats.training.split import WHOLE, read_split
    from harness.pipeline.exporting.export import ExportOptions, export_runs

    rules, parent = _rules(chosen), runs_folder(runs_dir, environ)
    folders = list(dict.fromkeys(find_run(run, parent) for run in runs or ("last",)))
    exporting = ExportOptions(
        rules=rules,
        split=read_split(split) if split else WHOLE,
        ranking=ranking,
        allow_offline=allow_offline,
        force=force,
    )
    with shown_progress("groups", quiet=quiet) as on_group:
        result = export_runs(folders, to, exporting, on_group)
    if as_json:
        print_json(_json(result, to, rules.format))
    if not quiet or not result.files:
        for line in (*(f"left out: {line}" for line in result.losses.lines()), *(f"note: {n}" for n in result.notes)):
            say(line, err=True)
    if not result.files:
        raise NothingRankable(f"nothing is left to export as {rules.format}, and nothing was written")
    if not as_json:
        for file in result.files:
            say(f"{shlex.quote(str(to / file.name))}: {counted(file.lines, 'line')}")
        say(f"{shlex.quote(str(to / 'README.md'))}: what is in them, and what is not")


def _rules(chosen: Mapping[str, Any]) -> ExportRules:
    """Return the rules of an export from the options. Raises UsageError for an option that its format does not use."""
    from harness.formats.training.rules import ExportRules

    for names, formats in _ONLY_FOR:
        for name in names:
            if chosen[name] not in (None, False) and chosen["format_"] not in formats:
                flag = f"--{name.replace('_', '-')}"
                raise UsageError(f"{flag} is for --format {' or '.join(formats)}, not for {chosen['format_']}")
    plain = {name: chosen[name] for name in ("per_query", "confidence", "mixed", "final_answer")}
    with_default = {name: usual if chosen[name] is None else chosen[name] for name, usual in _DEFAULTS.items()}
    return ExportRules(
        format=chosen["format_"],
        weak=not chosen["no_weak"],
        included=frozenset(name for name in _INCLUDED if chosen[f"include_{name}"]),
        **plain,
        **with_default,
    )


def _json(result: ExportResult, to: Path, format_: str) -> dict[str, Any]:
    return {
        "path": str(to),
        "format": format_,
        "runs": [{"run": run.id, "ranking": run.ranking, "offline": run.offline} for run in result.runs],
        "files": [{"file": f.name, "split": f.split, "lines": f.lines, "sha256": f.sha256} for f in result.files],
        "left_out": [{"what": what, "why": why, "count": count} for what, why, count in result.losses.rows()],
        "notes": list(result.notes),
    }
