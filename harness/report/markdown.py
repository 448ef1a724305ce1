"""A comparison as Markdown, for a comment on a pull request.

What agents, users and models wrote stands in code spans. Nothing in a code span is markup, HTML, a link or a mention,
neither for CommonMark nor for what GitHub and GitLab make of names and numbers afterwards.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from harness.core.comparisons import ComparedQuery, Comparison, SideResult
from harness.core.errors import counted
from harness.core.gates import GateResult
from harness.core.unicode import visible
from harness.report.summary.comparison import losses, pairing_cells, rate, result_figures, sides_rows, win_rate
from harness.report.text import count, signed

_LOSSES = 10
_TEXT = 160
"""Characters of a stranger's text."""
_REASON = 900
"""Characters of an error's message."""
_PROSE = re.compile(r"(?:[A-Za-z0-9 ,;:%()−–+'-]|\.(?=[\d ]|$)|\[[−\d., ]+\]|`[A-Za-z0-9 ._/:@+-]+`(?!`))*")
"""Text in which no reader of Markdown sees markup, a link or a mention, but for plain names in code spans."""
_NAMES = re.compile("`[^`]*`")
_REFERENCE = re.compile(r"gh-\d|[0-9a-f]{7}|\][(:\[]", re.IGNORECASE)
"""What GitHub would take for an issue, a commit or a link."""


def comparison_markdown(comparison: Comparison, queries: Iterable[ComparedQuery]) -> str:
    """Return verdict, figures and the ten worst losses as Markdown that holds no HTML."""
    rows = [(row.label, *row.values) for row in sides_rows(comparison.figures)]
    labels = [side.label for side in comparison.figures]
    sides: list[str] = []
    for side in comparison.sides:
        models = f", model {', '.join(map(code, side.models))}" if side.models else ""
        instructions = f", instructions {code(side.instructions_file)}" if side.instructions_file else ""
        sides.append(f"- **{side.label}**: agent {code(side.agent)}{models}{instructions}, run {code(side.run)}")
    blocks = [
        f"**{prose(comparison.sentence)}**" if comparison.sentence else "",
        "**Offline self-test**: this comparison says nothing of any LLM." if comparison.offline else "",
        "**Incomplete**: some pairs are not judged yet." if comparison.status == "incomplete" else "",
        "\n".join(sides),
        _results(comparison.results),
        _table(("", *labels), rows, right=range(1, 1 + len(labels))) if rows else "",
        *_lost_blocks(comparison, list(queries)),
        "\n".join(f"- {prose(f'note: {note}')}" for note in comparison.notes),
        f"Comparison {code(comparison.comparison)}, judge {code(comparison.judge)}, rubric {code(comparison.rubric)}.",
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def gate_markdown(gate: GateResult, forecast: Iterable[str], queries: Iterable[ComparedQuery]) -> str:
    """Return what a gate says as Markdown, with the comparison under it; `forecast` says what it would take to tell."""
    looks = [(count(look.queries), rate(win_rate(look)), look.finding) for look in gate.looks]
    compared = gate.comparison.model_copy(update={"sentence": ""})  # the gate's verdict is the only one
    blocks = [
        f"### {prose(gate.sentence)}",
        "\n".join(f"- {prose(line)}" for line in forecast),
        _table(("queries judged", "preferred", "the look says"), looks, right=(0,)) if gate.planned_looks > 1 else "",
    ]
    return "\n\n".join([*filter(None, blocks), comparison_markdown(compared, queries)])


def refusal_markdown(reason: str) -> str:
    """Return why a gate was refused as Markdown."""
    return f"### Refused: there is no gate\n\n{code(reason, _REASON)}\n"


def code(text: str, most: int = _TEXT) -> str:
    """Return a text as a code span on one line: no text closes the span, and nothing in the span means anything."""
    flat = " ".join(visible(text).split())
    cut = flat if len(flat) <= most else f"{flat[: most - 1]}…"
    fence = "`" * (1 + max(map(len, re.findall("`+", cut)), default=0))
    padding = " " if cut.startswith("`") or cut.endswith("`") else ""
    return f"{fence}{padding}{cut or '–'}{padding}{fence}"


def prose(text: str) -> str:
    """Return a sentence as it is where nothing in it could mean anything in Markdown, else as a code span."""
    return text if _PROSE.fullmatch(text) and not _REFERENCE.search(_NAMES.sub("", text)) else code(text)


def _results(results: Sequence[SideResult]) -> str:
    """Return the figures of two sides; of more, a line for each two of them."""
    if len(results) == 1:
        first, second = results[0].sides
        rows = [(figure.label, figure.value, figure.meaning) for figure in result_figures(results[0])]
        return _table((f"{second} against {first}", "", ""), rows, right=())
    pairings = [(f"{r.sides[1]} against {r.sides[0]}", *pairing_cells(r)) for r in results]
    return _table(("", "win rate", "better", "worse", "tied", "p by Holm"), pairings, right=range(1, 6))


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], right: Iterable[int]) -> str:
    """Return a table; its cells are the harness's words and figures, none of a stranger."""
    at_right = set(right)
    rule = ["--:" if at in at_right else ":--" for at in range(len(head))]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, rule, *rows))


def _lost_blocks(comparison: Comparison, queries: Sequence[ComparedQuery]) -> Iterator[str]:
    for result in comparison.results:
        lost = losses(comparison, result, queries)
        if lost:
            first, second = result.sides
            worst = f", the worst {_LOSSES} of them" if len(lost) > _LOSSES else ", worst first"
            of = counted(result.queries, "query", "queries")
            yield f"**{second} lost {len(lost):,} of {of} to {first}**{worst}:"
            yield "\n".join(
                f"{number}. {code(met.query.text)} ({code(met.name)}): won {met.won}, "
                + ("failed" if met.margin is None else f"margin {signed(met.margin)}")
                for number, met in enumerate(lost[:_LOSSES], 1)
            )
