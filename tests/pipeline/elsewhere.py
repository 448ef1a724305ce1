"""What tests of rollouts that are made elsewhere share: a server whose replies depend on requests alone."""

import hashlib
import json
from pathlib import Path
from typing import Any

from tests.fake_endpoint import FakeEndpoint, Say, Seen


def by_seed(seen: Seen) -> Say:
    """Search, then give the answer that this query and seed always get."""
    if not seen.tool_outputs:
        return Say(calls=(("search", {"query": "languages"}),))
    drawn = hashlib.sha256(f"{seen.user}/{seen.body['seed']}".encode()).hexdigest()
    return Say(f"Answer {drawn}.")


class Deterministic(FakeEndpoint):
    """Replies whose ids, too, depend on the request alone."""

    def answer(self, seen: Seen) -> Any:
        answer = super().answer(seen)
        if not answer or answer[0] != 200 or isinstance(answer[1], str):
            return answer
        number = int(hashlib.sha256(json.dumps(seen.body, sort_keys=True).encode()).hexdigest()[:8], 16)
        text = json.dumps(answer[1])
        old = str(answer[1]["id"]).rpartition("-")[2]
        return 200, text.replace(f"call_{old}_", f"call_{number}_").replace(f'-{old}"', f'-{number}"'), {}


def without_times(value: Any) -> Any:
    passing = {"run", "started_at", "duration_s", "crc", "created_at", "at", "id", "basis", "profiles"}
    if isinstance(value, dict):
        return {name: without_times(item) for name, item in value.items() if name not in passing}
    if isinstance(value, float):
        return round(value, 4) + 0.0  # what is learnt of a judge differs beyond that with the order in which groups end
    return [without_times(item) for item in value] if isinstance(value, list) else value


def records(run: Path) -> dict[str, list[str]]:
    """Return the lines of each kind of file but for times; of texts their hashes."""
    lines: dict[str, list[str]] = {}
    for kind in ("queries", "rollouts", "verdicts", "rankings", "blobs"):
        texts = [line for file in (run / kind).iterdir() for line in file.read_text().splitlines()]
        lines[kind] = sorted(json.dumps(without_times(json.loads(text)), sort_keys=True) for text in texts)
    return lines
