"""`harness judges`: the rankings of one run side by side."""

from collections.abc import Sequence
from pathlib import Path

from harness.cli.archived_run import open_run
from harness.cli.console import print_lines
from harness.cli.output import Caller, print_json
from harness.core.errors import UsageError
from harness.core.wording import call
from harness.pipeline.labelling import answer_labels
from harness.report.json import judges_json
from harness.report.summary.judges import judges_side_by_side
from harness.report.terminal.judges import side_by_side_lines


def judges(caller: Caller, run: str, rankings: Sequence[str], labels: Path | None) -> None:
    """Print the judges of a run side by side. Raises UsageError for a run with one ranking only."""
    reader = open_run(run, caller)
    chosen = [reader.ranking(name) for name in dict.fromkeys(rankings)] or reader.rankings()
    side = judges_side_by_side(reader, chosen, answer_labels(reader, labels))
    if len(side.rankings) < 2:
        how = call("rescore", reader.typed_name, judge_model="MODEL")
        count = "one ranking only" if side.rankings else "no ranking that ranks anything"
        raise UsageError(f"run {reader.info.id} has {count}, and nothing to put beside it; make another with {how}")
    if caller.as_json:
        print_json({"run": reader.info.id, "path": str(reader.folder)} | judges_json(side))
        return
    print_lines(lambda width: side_by_side_lines(side, width))
