"""Comparison, pure: what the matches of two sides or more say, with intervals over queries.

This room calls no judge, reads no file, and draws no chance but from a seed handed in. Figures of two sides speak of
the second one. scipy is imported when a figure is worked out.
"""
