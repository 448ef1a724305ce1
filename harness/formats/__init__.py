"""Formats: between the archive and the files that others write or read.

Here a file becomes records, and ranked rollouts become training data (training). This room judges nothing, ranks
nothing and asks no model.
"""
