"""`harness stats`: how far the judge of a run can be believed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from harness.cli import options
from harness.cli.labels import labels_option

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rich.console import Console

    from harness.archive.rankings import RankingFile
    from harness.archive.reader import RunReader


@click.command()
@options.run_argument
@click.option("--ranking", metavar="ID", help="Only this ranking, by its id. [default: all of the run]")
@click.option("--curve", is_flag=True, help="Show accuracy against judge calls, from a judged round robin.")
@click.option("--against", metavar="ID", help="With --curve: the truth is this ranking.")
@click.option(
    "--truth",
    type=click.Choice(("labels", "reward", "order", "ranking", "itself")),
    help="With --curve: what ranks are measured by. `order`: the verdicts of the other order; `itself`: the round "
    "robin's own scores. [default: the first that there is of labels, reward, order, itself]",
)
@labels_option
@click.option("--csv", type=options.FILE, metavar="FILE", help="With --curve: write all points as CSV.")
@click.option("--svg", type=options.FILE, metavar="FILE", help="With --curve: draw all points.")
@click.option(
    "--profile", type=options.FILE, metavar="FILE", help="Write what is learnt of the judge, for --judge-profile."
)
@click.option("--force", is_flag=True, help="Write over a file that is there.")
@options.setting_option("seed")
@options.setting_option("runs_dir")
@options.json_option
@options.wide_option
@click.pass_obj
def stats(
    environ: Mapping[str, str],
    run: str,
    ranking: str | None,
    runs_dir: Path | None,
    seed: int | None,
    *,
    as_json: bool,
    curve: bool,
    profile: Path | None,
    force: bool,
    **of_curve: Any,
) -> None:
    """Show how far to believe the judge, for each ranking of a run and each judge in it; or for a comparison.

    Flips, position bias, ties, cycles, the pull of length, scores, noise, failures; and whether judging each pair in
    one order would do. Reads the archive alone.

    --curve plays every topology with every estimator on the verdicts of a judged round robin, and says how few calls
    would do. It asks no model.

    --profile keeps what the verdicts of a ranking (by default the newest) teach of the judge.
    """
    from harness.archive.reader import RunReader
    from harness.cli.archived_run import open_archived, refuse_parts_of_runs
    from harness.core.errors import UsageError

    reader = open_archived(run, runs_dir, environ)
    if not isinstance(reader, RunReader):
        from harness.cli.comparison_stats import print_comparison_stats

        refuse_parts_of_runs(
            reader, {"--ranking": ranking is not None, "--curve": curve, "--profile": profile is not None}
        )
        print_comparison_stats(reader, as_json=as_json)
    elif curve and profile:
        raise UsageError("give --curve or --profile, not both")
    elif curve:
        from harness.cli.stats_curve import CurveRequest, show_curve
        from harness.core.settings_sources import load, merge_sources

        drawn_by = load(merge_sources({"seed": seed}, environ, None)).seed
        show_curve(reader, CurveRequest(ranking, drawn_by, force=force, **of_curve), as_json=as_json)
    elif unused := [name for name, value in {"seed": seed, **of_curve}.items() if value is not None]:
        raise UsageError(f"--{unused[0]} needs --curve")
    elif profile:
        from harness.cli.kept_profile import write_profile

        write_profile(reader, reader.ranking(ranking), profile, force=force)
        _show_judges(reader, ranking, as_json=as_json)
    elif force:
        raise UsageError("--force needs --curve or --profile")
    else:
        _show_judges(reader, ranking, as_json=as_json)


def _show_judges(reader: RunReader, ranking: str | None, *, as_json: bool) -> None:
    from harness.cli.console import stdout
    from harness.cli.output import print_json

    newest = reader.ranking(ranking)
    rankings = [newest] if ranking else reader.rankings()
    if as_json:
        rows = [_json(reader, each) for each in rankings]
        print_json({"run": reader.info.id, "path": str(reader.folder), "rankings": rows})
        return
    console = stdout()
    for each in rankings:
        _print(console, reader, each)


def _json(reader: RunReader, ranking: RankingFile) -> dict[str, Any]:
    from harness.pipeline.labelling import answer_labels
    from harness.report.json import agreement_json, figures_json, quality_json
    from harness.report.judge_quality import judge_qualities
    from harness.report.learnt_judges import judge_profiles, profile_json, voices_of_jurors
    from harness.report.summary.labels import label_agreement
    from harness.report.summary.ranking import by_signal, is_offline, summarize
    from harness.report.summary.ranking_figures import ranking_figures

    summary = summarize(reader, ranking)
    agreement = label_agreement(reader, ranking, answer_labels(reader, None))
    profiles = {profile.judge: profile_json(profile) for profile in judge_profiles(reader, ranking)}
    voices = voices_of_jurors(reader, ranking)
    return {
        "ranking": ranking.head.id,
        "finished": ranking.finished,
        "offline": is_offline(reader, ranking),
        "rubric": ranking.head.rubric,
        "groups": len(ranking.groups),
        "signals": by_signal(summary.signals),
        "labels": agreement and agreement_json(agreement),
        "rollouts": figures_json(ranking_figures(reader, ranking), summary.agents, summary.judge),
        "judges": [
            quality_json(quality) | {"profile": profiles.get(quality.judge)}
            for quality in judge_qualities(reader, ranking, summary)
        ],
        "jury": voices and {"shares": voices.shares, "shared": voices.shared},
    }


def _print(console: Console, reader: RunReader, ranking: RankingFile) -> None:
    from harness.core.wording import counted
    from harness.report.judge_quality import judge_qualities
    from harness.report.learnt_judges import judge_profiles, jury_words, profile_words, voice_words, voices_of_jurors
    from harness.report.summary.ranking import by_signal, is_offline, summarize
    from harness.report.summary.ranking_figures import ranking_figures, ranking_words
    from harness.report.terminal.judges import figure_lines, quality_lines
    from harness.report.terminal.table import visible_text

    summary = summarize(reader, ranking)
    signals = ", ".join(f"{name} {n:,}" for name, n in by_signal(summary.signals).items())
    groups = counted(len(ranking.groups), "query", "queries")
    console.print(visible_text(f"ranking {ranking.head.id}: {groups}, signal {signals or 'not told yet'}"))
    if is_offline(reader, ranking):
        console.print("SELF-TEST on the embedded offline parts: it says nothing of any LLM.", style="bold yellow")
    figures = ranking_words(ranking_figures(reader, ranking), summary.agents, summary.judge) if ranking.groups else ()
    for line in figure_lines(tuple(figures), console.width):
        console.print(line)
    qualities = judge_qualities(reader, ranking, summary)
    profiles = {profile.judge: profile for profile in judge_profiles(reader, ranking)}
    voices = voices_of_jurors(reader, ranking)
    if not qualities:
        console.print(f"  {_why_no_quality(ranking, listwise=summary.listwise)}\n")
    for quality in qualities:
        for line in quality_lines(quality, console.width):
            console.print(line)
        for sentence in profile_words(profiles[quality.judge]) if quality.judge in profiles else ():
            console.print(visible_text(f"  {sentence}"))
        for sentence in voice_words(voices, quality.judge) if voices else ():
            console.print(visible_text(f"  {sentence}"))
        for warning in quality.warnings:
            console.print(visible_text(f"the judge: {warning}", style="bold"), soft_wrap=True)
    if voices:
        console.print(jury_words(voices), soft_wrap=True, markup=False)
    _print_agreement(console, reader, ranking)


def _print_agreement(console: Console, reader: RunReader, ranking: RankingFile) -> None:
    from harness.pipeline.labelling import answer_labels
    from harness.report.judge_quality import agreement_words
    from harness.report.summary.labels import label_agreement

    if agreement := label_agreement(reader, ranking, answer_labels(reader, None)):
        for sentence in agreement_words(agreement):
            console.print(sentence, soft_wrap=True, markup=False)


def _why_no_quality(ranking: RankingFile, *, listwise: bool) -> str:
    if listwise:
        return "no verdict on pairs: a listwise judge's scores have no orders to compare"
    if not ranking.finished and not ranking.groups:
        return "no query is ranked yet: this ranking was cut short, or is under way"
    if any(group.topology == "imported" for group in ranking.groups):
        return "no verdict: the places were imported"
    return "no verdict: there was nothing to judge"
