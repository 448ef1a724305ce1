"""Ranked rollouts as training data, pure: what may go in, which pairs, the record of each format, and lines read back.

A new format of JSON lines: its name in `rules`, its maker and its model in `registry`.
"""
