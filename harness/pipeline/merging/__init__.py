"""One run out of several runs of one agent, settings, judge and rubric."""
