"""Exporting ranked runs as training data: what a run holds, the files, and the whole."""
