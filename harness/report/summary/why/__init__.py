"""Why one of two rollouts is above the other, as records: `explain_pair` puts a `PairExplanation` together.

pair_records: the records · explanation: how they are made · dimension_leads: which marks decided · paths: where two
paths part, and their steps side by side · judge_words: what the judge said of each side.
"""
