"""Judging: what a judge is, what it is asked, how its reply is read, and how verdicts are bought once.

A judge sees transcripts, never rollouts: no index, role, temperature or model name reaches it. This room must not
know how its verdicts are turned into ranks.
"""
