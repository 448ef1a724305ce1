"""Rollouts on the machines of a Ray cluster: workers run the agent, and this process judges and alone writes.

Only `harness.pipeline.stages` opens this room, and only for `--engine ray`: nothing else imports Ray.
"""
