"""Tables and lines for a terminal, as rich renderables.

show: what a run and `show` print · details: one query's matches, pairs and paths · runs: the lists of runs and of
rankings · judges: how far to believe a judge, judges side by side, the curve · why: two rollouts · comparison: runs
against each other · table: columns, widths, texts on one line.
"""
