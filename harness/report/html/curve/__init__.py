"""The drawing of accuracy against judge calls."""
