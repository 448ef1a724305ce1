"""The name of a way of judging: what decides which verdict a pair of rollouts, in an order, is given."""

from collections.abc import Sequence

from harness.core.records import digest
from harness.judging.judge import Judge
from harness.judging.prompt import Task
from harness.tournament.group import Rules
from harness.transcripts.transcript import Transcript

_TASK = Task("", "")


def way_of(judges: Sequence[Judge], rules: Rules) -> str:
    """Return the name: under it, and over the same records, equal pairs of rollouts have equal keys of verdicts.

    How tokens are counted is not in it, since a counter has no name here.
    """
    form = rules.form
    probe = Transcript("path", "answer", rendering=form.rendering)
    tokens = form.budget.tokens if form.budget else None
    return digest([[judge.key(_TASK, probe, probe) for judge in judges], tokens, rules.show_instructions])
