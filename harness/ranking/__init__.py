"""Ranking, pure: topologies ask for matches, estimators turn matches into scores and ranks, ranks become rewards.

This room never calls a judge, awaits nothing, reads no file, and draws no chance but from an rng handed in.
Scores are exact (whole numbers of units, or `Fraction`), so that no rounding decides a match.
"""
