"""`harness credit`: what each step of each rollout was worth."""

import json
from itertools import islice

from harness.archive.reader import RunReader
from harness.archive.result_files import RankingFile
from harness.cli.archived_run import MOST_LISTED, find_query, open_run
from harness.cli.console import print_lines, stdout
from harness.cli.output import Caller, print_json, say
from harness.core.errors import UsageError, counted
from harness.core.records import Query
from harness.core.unicode import escape_json
from harness.report.summary.credit import RunCredit
from harness.report.summary.ranking import is_offline
from harness.report.summary.why import judged_ranking
from harness.report.terminal.credit import credit_lines, decisive_lines, graphviz_lines, rollout_credit_lines
from harness.report.text import SELF_TEST, as_sentence
from harness.rollouts.states import StateBy


def credit(caller: Caller, run: str, state: StateBy, query: str | None, ranking: str | None, graphviz: bool) -> None:
    """Print the credit of the steps of a run, or of one of its queries."""
    if graphviz and caller.as_json:
        raise UsageError("--graphviz prints no JSON: leave out --json, which has the tree, too")
    reader = open_run(run, caller)
    chosen = judged_ranking(reader, ranking)
    _check(reader, chosen)
    of_run = RunCredit(reader, chosen, state)
    one = query is not None or len(reader.index.queries) == 1
    queries = [find_query(reader, query)] if one else reader.queries()
    if graphviz:
        for line in graphviz_lines(of_run.of_all(queries)):
            say(line)
        return
    offline = is_offline(reader, chosen)
    if caller.as_json:
        head = {"run": reader.info.id, "ranking": chosen.head.id, "offline": offline, "state": state}
        say(escape_json(json.dumps(head, ensure_ascii=False))[:-1] + ', "groups": [')
        comma = ""
        for group in of_run.of_all(queries):  # one at a time, as there may be many
            say(comma + escape_json(json.dumps(group.as_json(), ensure_ascii=False)))
            comma = ","
        say("]}")
        return
    if offline:
        stdout().print(as_sentence(SELF_TEST), style="bold yellow")
    say(f"run {reader.info.id}")
    draw = credit_lines if one else decisive_lines
    for group in of_run.of_all(islice(queries, MOST_LISTED)):
        print_lines(lambda width, group=group: draw(group, width))
    if (more := len(reader.index.queries) - MOST_LISTED) > 0 and not one:
        say(f"{counted(more, 'more query', 'more queries')}: --query ID shows one, --json all")


def _check(reader: RunReader, ranking: RankingFile) -> None:
    """Raise UsageError for a run of which no rollout has recorded calls, as of one that was imported."""
    rollouts = (rollout for query in ranking.queries for rollout in reader.group(Query(id=query, text="")).rollouts)
    first = next(rollouts, None)
    if first is None or first.raw_calls or any(rollout.raw_calls for rollout in rollouts):
        return
    why = f"it was imported ({first.origin})" if first.origin else "its agent's models recorded none"
    raise UsageError(f"run {reader.info.id} holds no model calls, and steps are model calls: {why}")


def print_rollout(reader: RunReader, query: Query, index: int, ranking: str | None, caller: Caller) -> None:
    """Print the credit of the steps of one rollout."""
    rollout = RunCredit(reader, judged_ranking(reader, ranking)).of(query).of(index)
    if caller.as_json:
        print_json(rollout.as_json())
    else:
        print_lines(lambda width: rollout_credit_lines(rollout, width))
