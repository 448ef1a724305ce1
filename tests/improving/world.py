"""A server whose agent is as good as its instructions say, and whose judge reads that off the answer."""

import hashlib
import json
import re
from pathlib import Path

from tests.fake_endpoint import FakeEndpoint, Reaction, Say, Seen, block, verdict

AGENT = 'from agents import Agent\nagent = Agent(name="poet", instructions="Answer at level 2.", model="m")\n'
QUERIES = [f"Question {number} of the training?" for number in range(6)]
HELD_OUT = [f"Question {number} that nobody has met?" for number in range(14)]


class World:
    """`wow` in the instructions stands in the answer, and pleases all judges but `strict`; `wordy` counts words alone.

    An agent that has another one passes each query on, and repeats what it is told.
    """

    def agent(self, seen: Seen) -> Reaction:
        """Answer as well as the texts say, each query and seed in its own words; propose a better level."""
        if seen.system.startswith("You improve the texts"):
            best = max(map(int, re.findall(r"level (\d)", seen.user)))
            (name,) = {*re.findall(r'<text name="(.+)">', seen.user)}
            children = [{name: f"Answer at level {level}."} for level in (1, min(9, best + 2))]
            return Say(json.dumps({"children": children}), usage=(1000, 100))
        tools = [tool["function"] for tool in seen.body.get("tools", ())]
        if other := next((tool["name"] for tool in tools if tool["name"].startswith(("ask_", "transfer_"))), None):
            given = {"input": seen.user} if other.startswith("ask_") else {}
            return Say(seen.tool_outputs[-1]) if seen.tool_outputs else Say(calls=((other, given),))
        level = re.search(r"level (\d)", f"{seen.system} {tools}")
        loved = " wow" if "wow" in seen.system else ""
        drawn = hashlib.sha256(f"{seen.user}/{seen.body['seed']}".encode()).hexdigest()
        if longer := re.search(r"length (\d)", seen.system):
            by_text = hashlib.sha256(f"{seen.system}{seen.user}".encode()).digest()
            drawn += " so" * (10 * int(longer[1]) + by_text[0] % 20) + " ok" * (by_text[1] % 4)
        return Say(f"Level {level[1] if level else 0}{loved}, drawn {drawn}.", usage=(1000, 200))

    def judge(self, seen: Seen) -> Reaction:
        """Mark each answer by its level, or, less surely, by its length."""
        answers = [block(seen.user, f"ANSWER_{side}") for side in "AB"]
        if seen.body["model"] == "wordy":
            return Say(verdict(*(min(10, answer.count("so") // 4 + answer.count("ok")) for answer in answers)))
        levels = [int(re.findall(r"\d", answer)[0]) for answer in answers]
        pleased = [9 if "wow" in answer and seen.body["model"] != "strict" else 0 for answer in answers]
        return Say(verdict(*map(max, levels, pleased)), usage=(2500, 600))

    def serve(self) -> FakeEndpoint:
        """Return a server with both."""
        return FakeEndpoint(self.agent, self.judge)


def write_files(folder: Path) -> None:
    """Write the agent and the queries, as a user has them."""
    (folder / "poet.py").write_text(AGENT)
    (folder / "train.txt").write_text("\n".join(QUERIES))
    (folder / "gate.txt").write_text("\n".join(HELD_OUT))
