"""Ranked rollouts as training data, pure: what may go in, which pairs, and the record of each format.

losses: what was left out, counted · candidates: a query's rollouts that may go in · pairs: which two are compared, and
how surely · messages: messages as each consumer takes them · records: a line of groups, sft and pairs · art: groups for
ART · line_makers: which format is made by what · columns: what `datasets` is told of each · table: the rollouts as
CSV · checks, talk_rules, group_rules, trl_rules, openai_rules, art_rules, atif_rules: what a line must hold ·
registry: what makes the lines of each format and what they must be · line_models: the checks · split: which file a query goes to · card: the data card.
"""
