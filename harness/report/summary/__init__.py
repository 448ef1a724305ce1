"""The model that terminal, page and JSON read: a ranking summed up over its groups, and each group in detail.

Pure: the records come from a `RunReader` that the caller opened; nothing here prints, draws or writes.

placed_rollouts: rollouts with their places · first_two: who came first, and the match of the first two places ·
figures: what judge and agent did and cost · notes: what to know before believing a ranking · group, ranking: the sums,
for one query and for all · match_verdicts, match_details, flags, bracket: the judging of one query in detail ·
steps: the steps of a path with their numbers.
"""
