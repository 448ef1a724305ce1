"""Tables and lines for a terminal, as rich renderables.

overview: what a run prints · group: one query's table and the lines below it · matches: one query's matches ·
rollout: one path and answer · runs: the list of runs · judge_quality: how far to believe a judge ·
comparison: runs against each other.
"""
