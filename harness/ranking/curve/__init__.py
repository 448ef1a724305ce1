"""Accuracy against judge calls: every topology with every estimator, played on the verdicts of a round robin.

No verdict is bought: a round robin holds the verdict that any topology may ask for. Pure, as `harness.ranking` is.
"""
