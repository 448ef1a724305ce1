"""The fuzzers' frame: every command of the app, attacked in this process, and what an attack must never lead to.

- `commands.py`: the commands as the app declares them, and argument lists made from their parameters.
- `attempts.py`: `attempt`, which runs one command and tells how it ended; `Outcome.faults` names what must never be.
- `snapshots.py`: `snapshot` and `untouched`, which prove that no byte changed.
- `kinds/`: one module a kind of hostile input, each with `prepare(rng, room) -> Attack`. A new module is all it takes.
- `attacks.py`: `Room` (the folders of one attack), `Attack`, and `faults_of`, which runs an attack and judges it.
- `__main__.py`: the long fuzzer, `python -m tests.fuzz --inputs 2000 --seed 1`.
"""
