"""Judging by batch: questions are gathered into files for the provider, and replies are picked up a day later."""
