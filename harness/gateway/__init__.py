"""The gateway: an OpenAI-compatible address that any program calls, and that records its sessions as rollouts of a run.

`recorded` and `sessions` are pure: what a call adds, and what a session may do next. `rollouts` makes records of
sessions. `calls` passes a call on, `app` is the HTTP rim, `serve` the run around it.
"""
