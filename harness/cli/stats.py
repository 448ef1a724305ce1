"""`harness stats`: how far the judge of a run can be believed; `harness judges`: a run's rankings side by side."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from harness.archive.comparison_reader import ComparisonReader
from harness.archive.reader import RunReader
from harness.archive.result_files import RankingFile
from harness.archive.run_info import find_archived
from harness.cli.archived_run import open_archived, open_run, refuse_parts_of_runs, runs_folder
from harness.cli.console import print_lines, stderr, stdout
from harness.cli.new_files import refuse_existing, write_new
from harness.cli.output import Caller, print_json, say
from harness.core.errors import NothingRankable, UsageError, call, counted
from harness.core.settings_sources import load, merge_sources
from harness.judging.transcript_form import form_of_rendering
from harness.pipeline.labelling import answer_labels
from harness.report import learnt_judges
from harness.report.csv import curve_csv
from harness.report.html.curve_svg import curve_svg
from harness.report.json import agreement_json, curve_json, figure_record, figures_json, judges_json, quality_json
from harness.report.judge_quality import JudgeQuality, agreement_words, compared_qualities, judge_qualities
from harness.report.summary import evidence
from harness.report.summary.curve import judging_curve, round_robin_of
from harness.report.summary.diversity import Diversity, EmbeddedDistance, diversity, diversity_words
from harness.report.summary.group import QualityFigure
from harness.report.summary.judges import JudgesSideBySide, PlantedRight, judges_side_by_side
from harness.report.summary.labels import label_agreement
from harness.report.summary.ranking import by_signal, is_offline, ranked_groups, summarize
from harness.report.summary.ranking_figures import ranking_figures, ranking_words
from harness.report.terminal.judges import curve_lines, figure_lines, quality_lines, side_by_side_lines
from harness.report.terminal.table import visible_text
from harness.report.text import SELF_TEST, SIGNAL_WORDS, as_sentence, money, number_interval


def stats(
    caller: Caller,
    run: str,
    ranking: str | None,
    seed: int | None,
    *,
    curve: bool,
    profile: Path | None,
    force: bool,
    embeddings_model: str | None,
    **of_curve: Any,
) -> None:
    """Print how far to believe the judges of a run or of a comparison, or the curve of a judged round robin."""
    reader = open_archived(find_archived(run, runs_folder(caller)))
    if not isinstance(reader, RunReader):
        given = {"--ranking": ranking is not None, "--curve": curve, "--profile": profile is not None}
        given["--embeddings-model"] = embeddings_model is not None
        refuse_parts_of_runs(reader, given)
        _show_comparison(reader, caller)
    elif curve and profile:
        raise UsageError("give --curve or --profile, not both")
    elif curve and embeddings_model:
        raise UsageError("give --curve or --embeddings-model, not both")
    elif curve:
        drawn_by = load(merge_sources({"seed": seed}, caller.environ, None)).seed
        _show_curve(reader, caller, ranking, seed=drawn_by, force=force, **of_curve)
    elif unused := [name for name, value in {"seed": seed, **of_curve}.items() if value is not None]:
        raise UsageError(f"--{unused[0]} needs --curve")
    elif force and not profile:
        raise UsageError("--force needs --curve or --profile")
    else:
        newest = reader.ranking(ranking)
        if profile:
            _write_profile(reader, newest, profile, force=force)
        rankings = [newest] if ranking else reader.rankings()
        embedded = _embedded(reader, caller, embeddings_model) if embeddings_model else None
        if caller.as_json:
            rows = [_ranking_json(reader, each, embedded) for each in rankings]
            print_json({"run": reader.info.id, "path": str(reader.folder), "rankings": rows})
            return
        console = stdout()
        for each in rankings:
            _print_ranking(console, reader, each, embedded)


def _embedded(reader: RunReader, caller: Caller, model: str) -> EmbeddedDistance:
    import anyio

    from harness.pipeline.embedding import embedded_distance
    from harness.pipeline.run_environment import RunEnvironment

    run_env, settings = RunEnvironment(caller.environ), load(merge_sources({}, caller.environ, None))
    return anyio.run(embedded_distance, reader, model, settings, run_env)


def _ranking_json(reader: RunReader, ranking: RankingFile, embedded: EmbeddedDistance | None) -> dict[str, Any]:
    summary = summarize(reader, ranking)
    agreement = label_agreement(reader, ranking, answer_labels(reader, None))
    profiles = {
        profile.judge: learnt_judges.profile_json(profile) for profile in learnt_judges.judge_profiles(reader, ranking)
    }
    voices = learnt_judges.voices_of_jurors(reader, ranking)
    asked_for: dict[str, Any] = {}
    if cited := evidence.citation_figures(ranking.groups, reader.verdict):
        asked_for["citations"] = asdict(cited)
    if checked := _evidence(reader, ranking):
        asked_for["evidence"] = asdict(checked)
    if varied := _diversity(reader, ranking):
        asked_for["diversity"] = asdict(varied)
    if embedded:
        paid = {"tokens": embedded.tokens, **embedded.cost.named("usd")}
        asked_for["embedded"] = {"model": embedded.model, "distance": figure_record(embedded.distance), **paid}
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
        **asked_for,
        "jury": voices and {"shares": voices.shares, "shared": voices.shared},
    }


def _print_ranking(
    console: Console, reader: RunReader, ranking: RankingFile, embedded: EmbeddedDistance | None
) -> None:
    summary = summarize(reader, ranking)
    told = by_signal(summary.signals_in_full) | {"incomplete": summary.incomplete}
    signals = ", ".join(f"{SIGNAL_WORDS.get(name, name)} {n:,}" for name, n in told.items() if n)
    groups = counted(len(ranking.groups), "query", "queries")
    console.print(visible_text(f"ranking {ranking.head.id}: {groups}, signal {signals or 'not told yet'}"))
    if is_offline(reader, ranking):
        console.print(as_sentence(SELF_TEST), style="bold yellow")
    figures = ranking_words(ranking_figures(reader, ranking), summary.agents, summary.judge) if ranking.groups else ()
    for line in figure_lines((*figures, *_more_words(reader, ranking, embedded)), console.width):
        console.print(line)
    profiles = {profile.judge: profile for profile in learnt_judges.judge_profiles(reader, ranking)}
    voices = learnt_judges.voices_of_jurors(reader, ranking)
    if not (qualities := judge_qualities(reader, ranking, summary)):
        console.print(f"  {_why_no_quality(ranking, listwise=summary.listwise)}\n")
    for quality in qualities:
        learnt = list[str]()
        if profile := profiles.get(quality.judge):
            seen, run = quality.tally.length_correlation, reader.typed_name
            left = learnt_judges.leanings_left(profile, ranking, seen, run)
            learnt = [*learnt_judges.profile_words(profile), *left]
        _print_judge(console, quality, [*learnt, *(learnt_judges.voice_words(voices, quality.judge) if voices else ())])
    if voices:
        console.print(learnt_judges.jury_words(voices), soft_wrap=True, markup=False)
    if agreement := label_agreement(reader, ranking, answer_labels(reader, None)):
        for sentence in agreement_words(agreement):
            console.print(sentence, soft_wrap=True, markup=False)


def _more_words(reader: RunReader, ranking: RankingFile, embedded: EmbeddedDistance | None) -> Iterator[QualityFigure]:
    if cited := evidence.citation_figures(ranking.groups, reader.verdict):
        yield evidence.citation_words(cited)
    if checked := _evidence(reader, ranking):
        yield from evidence.evidence_words(checked)
    if varied := _diversity(reader, ranking):
        yield from diversity_words(varied)
    if embedded:
        meaning = f"one less the cosine of two answers of a query, by {embedded.model}"
        paid = f"{counted(embedded.tokens, 'token')}, {money(embedded.cost)}"
        value = number_interval(embedded.distance) if embedded.distance else "no query has two answers"
        yield QualityFigure("embedded", "Distance of meanings", value, f"{meaning}; {paid}")


def _evidence(reader: RunReader, ranking: RankingFile) -> evidence.EvidenceFigures | None:
    checked = form_of_rendering(ranking.head.rendering).evidence
    return evidence.evidence_figures(group for group, _ in ranked_groups(reader, ranking)) if checked else None


def _diversity(reader: RunReader, ranking: RankingFile) -> Diversity | None:
    return None if reader.info.settings.get("vary") is None else diversity(ranked_groups(reader, ranking))


def _print_judge(console: Console, quality: JudgeQuality, remarks: Iterable[str] = ()) -> None:
    for line in quality_lines(quality, console.width):
        console.print(line)
    for remark in remarks:
        console.print(visible_text(f"  {remark}"))
    for warning in quality.warnings:
        console.print(visible_text(f"the judge: {warning}", style="bold"), soft_wrap=True)


def _why_no_quality(ranking: RankingFile, *, listwise: bool) -> str:
    if listwise:
        return "no verdict on pairs: a listwise judge's scores have no orders to compare"
    if not ranking.finished and not ranking.groups:
        return "no query is ranked yet: this ranking was cut short, or is under way"
    if any(group.topology == "imported" for group in ranking.groups):
        return "no verdict: the places were imported"
    return "no verdict: there was nothing to judge"


def _show_comparison(reader: ComparisonReader, caller: Caller) -> None:
    """Print the figures of each judge of a comparison. Raises UsageError before anything is compared."""
    newest = reader.newest()
    if newest is None:
        raise UsageError(
            f"comparison {reader.info.id} has compared no query yet; go on with {call('resume', reader.folder)}"
        )
    qualities = compared_qualities(reader, newest)
    if caller.as_json:
        shown = {
            "comparison": reader.info.id,
            "path": str(reader.folder),
            "finished": newest.finished,
            "offline": reader.info.offline,
            "rubric": reader.info.rubric,
            "queries": len(newest.queries),
            "judges": [quality_json(quality) for quality in qualities],
        }
        print_json(shown)
        return
    console, compared = stdout(), counted(len(newest.queries), "query", "queries")
    console.print(visible_text(f"comparison {reader.info.id}: {compared} compared"))
    if reader.info.offline:
        console.print(as_sentence(SELF_TEST), style="bold yellow")
    if not qualities:
        console.print("  no verdict: there was nothing to judge")
    for quality in qualities:
        _print_judge(console, quality)


def _write_profile(reader: RunReader, ranking: RankingFile, path: Path, *, force: bool) -> None:
    """Write the profile of a ranking's judge as JSON.

    Raises UsageError for a file that is there, and for a jury; NothingRankable without a judged pair; CannotWrite.
    """
    if not force:
        refuse_existing(path)
    profiles = learnt_judges.judge_profiles(reader, ranking)
    if not profiles:
        raise NothingRankable(f"ranking {ranking.head.id} of run {reader.info.id} rests on no judged pair")
    if len(profiles) > 1:
        judges = ", ".join(profile.judge for profile in profiles)
        raise UsageError(
            f"--profile: ranking {ranking.head.id} has a jury ({judges}), and --judge-profile is for one judge; "
            "`stats --json` holds each juror's profile"
        )
    write_new(path, profiles[0].model_dump_json(indent=1) + "\n", force=force)


def _show_curve(
    reader: RunReader, caller: Caller, ranking: str | None, *, seed: int, force: bool, **asked: Any
) -> None:
    """Print the curve of a run's round robin, and write the files that were asked for.

    Raises UsageError, NothingRankable, CannotWrite.
    """
    files = [(asked[name], text_of) for name, text_of in (("csv", curve_csv), ("svg", curve_svg)) if asked[name]]
    for path, _ in files if not force else ():
        refuse_existing(path)
    judged = round_robin_of(reader, ranking)
    against = reader.ranking(asked["against"]) if asked["against"] else None
    labels = answer_labels(reader, asked["labels"])
    drawn = judging_curve(reader, judged, truth=asked["truth"], against=against, labels=labels, seed=seed)
    for path, text_of in files:
        write_new(path, text_of(drawn), force=force)
    if caller.as_json:
        print_json({"run": reader.info.id, "path": str(reader.folder)} | curve_json(drawn))
        return
    print_lines(lambda width: curve_lines(drawn, width))
    for path, _ in files:
        say(f"{path}: written", err=True)


def judges(
    caller: Caller,
    run: str,
    rankings: Sequence[str],
    labels: Path | None,
    *,
    planted: bool,
    judge_agents: Sequence[str],
) -> None:
    """Print the judges of a run side by side. Raises UsageError for a run with one ranking only."""
    reader = open_run(run, caller)
    chosen = [reader.ranking(name) for name in dict.fromkeys(rankings)] or reader.rankings()
    side = judges_side_by_side(reader, chosen, answer_labels(reader, labels))
    if (judge_agents or caller.dry_run) and not planted:
        idle = "--judge-agent" if judge_agents else "--dry-run"
        raise UsageError(f"{idle} goes with --planted: without it nobody is asked")
    if len(side.rankings) < 2:
        how = call("rescore", reader.typed_name, judge_model="MODEL")
        count = "one ranking only" if side.rankings else "no ranking that ranks anything"
        raise UsageError(f"run {reader.info.id} has {count}, and nothing to put beside it; make another with {how}")
    if planted:
        asked = _ask_about_planted(reader, side, judge_agents, caller)
        if asked is None:
            return
        side = replace(side, planted=asked)
    if caller.as_json:
        print_json({"run": reader.info.id, "path": str(reader.folder)} | judges_json(side))
        return
    print_lines(lambda width: side_by_side_lines(side, width))


def _ask_about_planted(
    reader: RunReader, side: JudgesSideBySide, agents: Sequence[str], caller: Caller
) -> Mapping[str, PlantedRight] | None:
    """Return what the judges make of planted pairs, by ranking; None where --dry-run printed the plan."""
    import anyio

    from harness.cli.announce import cost_range
    from harness.cli.progress_bars import run_under_bars
    from harness.doctor.planted import judge_planted, plan_planted
    from harness.endpoints.costs import CostBounds

    rankings, console = [each.ranking for each in side.rankings], stderr()
    planned = partial(plan_planted, trust_archive=caller.trust_archive)
    plan = anyio.run(planned, reader, rankings, agents, caller.environ)
    quote = plan.as_json()
    if caller.dry_run and caller.as_json:
        return print_json(quote, indent=None)
    line = (
        f"asking {', '.join(quote['judges_at'])} about planted pairs, each in both orders: at most "
        f"{counted(quote['judge_calls'], 'call')}, as what the run holds is not asked again; "
        f"estimated cost: {cost_range(quote['cost_usd'] and CostBounds(*quote['cost_usd']))}"
    )
    if caller.dry_run:
        return say(line)
    console.print(line, soft_wrap=not console.is_terminal)
    return run_under_bars(partial(judge_planted, plan), caller)
