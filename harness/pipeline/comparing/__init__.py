"""Comparing runs by cross matches: what they share, what meets, what it costs, what came of it."""
