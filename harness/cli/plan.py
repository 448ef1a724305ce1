"""`harness plan`: how many rollouts, and which recipes, are enough for the next run, by a pilot run."""

import shlex
from dataclasses import asdict

from harness.cli.archived_run import open_run
from harness.cli.console import print_lines, stdout
from harness.cli.output import Caller, print_json, say
from harness.core.errors import option
from harness.report.summary.diversity import WITHOUT_ADVICE, diversity, diversity_words
from harness.report.summary.ranking import is_offline, ranked_groups
from harness.report.terminal.judges import figure_lines
from harness.report.text import SELF_TEST, as_sentence, enumeration
from harness.rollouts.variation import vary_in, without_recipes


def plan(caller: Caller, run: str, ranking: str | None) -> None:
    """Print how many rollouts, and which recipes, are enough for a run of such queries."""
    reader = open_run(run, caller)
    chosen = reader.ranking(ranking)
    found = diversity(ranked_groups(reader, chosen))
    advice, dropped = found.advice, [each.name for each in found.recipes if each.drop]
    vary = without_recipes(vary_in(reader.settings), dropped)
    if caller.as_json:
        head = {"run": reader.info.id, "ranking": chosen.head.id, "offline": is_offline(reader, chosen)}
        numbers = asdict(advice) if advice else {"n": None}
        print_json({**head, "vary": vary and str(vary), "drop": dropped, **numbers})
        return
    if is_offline(reader, chosen):
        stdout().print(as_sentence(SELF_TEST), style="bold yellow")
    options = [option("n", advice.n)] if advice else []
    options += [option("vary", shlex.quote(str(vary)))] if vary and (dropped or advice) else []
    if options:
        say(f"next run: {' '.join(options)}")
    if not advice:
        say(f"how many rollouts are enough: not told, for {WITHOUT_ADVICE}")
    elif advice.n == advice.most:
        say(f"whether more than {advice.n} gain more is not known: no query of the run had more")
    if not vary:
        say(f"drop {enumeration(dropped)}: no {option('vary')} names just the others, so write them by themselves")
    print_lines(lambda width: figure_lines(diversity_words(found), width))
