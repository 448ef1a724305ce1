"""The tournament: a group of rollouts becomes a ranking, by matches of two or by one list.

It asks judges and ranks what they say. It must not know how rollouts are made, nor where rankings are kept.
"""
