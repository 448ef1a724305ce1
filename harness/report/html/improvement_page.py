"""What an improvement leaves in `improved/`: the instructions, the diff, the page, the JSON."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.archive.improve_folder import RESULT, ImproveFolder
from harness.archive.run_files import write_file
from harness.core.cost import Cost
from harness.core.errors import CannotWrite, counted
from harness.core.improvements import CandidateStanding, ImproveInfo, Improvement
from harness.report.html.comparison_page import ForestLine
from harness.report.html.diffs import DiffLine, instruction_diff
from harness.report.html.facts import Fact, page_template
from harness.report.summary.comparison import rate, win_rate
from harness.report.text import dollars, probability

PartChanges = list[tuple[str, list[DiffLine] | None]]


@dataclass(frozen=True)
class FamilyMember:
    """A candidate with those that were written from it."""

    one: CandidateStanding
    change: PartChanges
    """From its parent."""
    children: tuple["FamilyMember", ...]

    @property
    def name(self) -> str:
        """What people call it."""
        return f"candidate {self.one.number}" if self.one.number else "the original"

    @property
    def words(self) -> str:
        """How it stands."""
        one = self.one
        parts = [f"round {one.round}", f"wins {rate(one.worth)}"] if one.number else []
        parts += [f"joined with candidate {one.parents[1]}"] if len(one.parents) > 1 else []
        parts += [f"the best with a probability of {probability(one.p_best)}", *["best on some queries"] * one.front]
        return ", ".join([*parts, *["dropped"] * one.dropped])


def write_result(folder: Path, result: Improvement) -> None:
    """Write `improved/` in an improvement's folder. Raises CannotWrite."""
    there = folder / RESULT
    try:
        there.mkdir(exist_ok=True)
    except OSError as exc:
        raise CannotWrite(f"cannot write {there}: {exc.strerror}") from exc
    write_file(there / "instructions.md", result.instructions)
    write_file(there / "instructions.diff", result.diff)
    write_file(there / "improvement.json", result.model_dump_json(indent=1))
    write_file(there / "report.html", improvement_page(result, ImproveFolder(folder).info()))


def improvement_page(result: Improvement, info: ImproveInfo) -> str:
    """Return the page."""
    root, best = result.standings[0], result.standings[result.best]
    gate = [ForestLine("held-out queries", "", result.win_rate, whole=True)] if result.win_rate else []
    took = f"{result.rollouts:,} rollouts, {result.verdicts:,} verdicts and {counted(result.proposals, 'proposal')}"
    if result.at_equal_length:
        gate.append(ForestLine("at equal length", "of the answers", result.at_equal_length))
    if second := result.second:
        gate.append(ForestLine("the second judge", second.judge, win_rate(second)))
    return page_template("improvement_page.html.j2").render(
        result=result,
        info=info,
        whole=_change(root.parts, best.parts),
        gate=gate,
        curve=[
            ForestLine(
                f"round {each.round}",
                f"candidate {each.best}, {counted(each.matches, 'match', 'matches')}, {dollars(each.spent)}",
                each.worth,
                whole=True,
            )
            for each in result.rounds
        ],
        tree=_member(root, result.standings),
        about=[
            Fact("Improvement", result.improvement),
            Fact("Judge", info.judge),
            *([Fact("Gate", result.comparison, "`harness report` draws its pairs")] if result.comparison else []),
            Fact("Cost", dollars(Cost(result.spent, result.exact)), took),
        ],
    )


def _member(one: CandidateStanding, standings: tuple[CandidateStanding, ...]) -> FamilyMember:
    children = tuple(_member(each, standings) for each in standings if each.parents[:1] == (one.number,))
    parent = standings[one.parents[0]] if one.parents else one
    return FamilyMember(one, _change(parent.parts, one.parts) if one.parents else [], children)


def _change(before: Mapping[str, str], after: Mapping[str, str]) -> PartChanges:
    return [(name, instruction_diff(text, after[name])) for name, text in before.items() if text != after[name]]
