"""A comparison as one self-contained HTML page, under the same rules as a run's page."""
