"""The model that terminal, page and JSON read: a ranking summed up over its groups, and each group in detail.

Pure: the records come from a `RunReader` that the caller opened; nothing here prints, draws or writes.

Of a ranking: ranking (the sums), ranking_figures, rankings (all those of a run), judges, curve, labels.
Of one query: group (its line and sums), rollouts (places, the first two), notes, match_verdicts and match_details,
pair_table. Of two rollouts: why, why_records, paths, pooled_fit. Of a comparison: comparison.
"""
