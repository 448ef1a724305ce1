"""Transcripts: what a judge reads of a trajectory, and how many tokens that takes. Pure."""
