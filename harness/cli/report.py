"""`harness report`: write the page of a run or a comparison anew."""

from harness.archive.reader import RunReader
from harness.archive.run_info import find_archived
from harness.cli.archived_run import open_archived, refuse_parts_of_runs, runs_folder
from harness.cli.look_options import ComparisonFiles
from harness.cli.output import Caller, say
from harness.cli.piece_progress import draw_pages
from harness.core.errors import UsageError


def report(caller: Caller, run: str, ranking: str | None, files: ComparisonFiles) -> None:
    """Write the page, of a comparison the files too, and print where it is. Raises UsageError, CannotWrite."""
    archived = find_archived(run, runs_folder(caller))
    if archived.kind == "improvement":
        from harness.cli.improve import report_improvement

        of_others = {"--ranking": ranking, "--markdown": files.markdown, "--csv": files.csv}
        refuse_parts_of_runs(archived.folder, {flag: value is not None for flag, value in of_others.items()})
        report_improvement(archived.folder)
        return
    reader = open_archived(archived)
    if isinstance(reader, RunReader):
        if files.markdown or files.csv:
            flag = "--markdown" if files.markdown else "--csv"
            raise UsageError(f"{flag} writes a comparison, and {reader.info.id} is a run")
        draw_pages(reader, reader.ranking(ranking), anew=True)
        say(str(reader.folder / "report.html"))
        return
    refuse_parts_of_runs(reader, {"--ranking": ranking is not None})
    from harness.cli.compare import write_files
    from harness.pipeline.comparing.outcome import comparison_of
    from harness.report.html.comparison_page import write_comparison_page

    comparison = comparison_of(reader)
    write_files(files, reader, comparison)
    say(str(write_comparison_page(reader, comparison)))
