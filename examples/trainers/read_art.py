"""Read `export --format art`, with the histories and tools that ART's own reader drops (docs/training.md)."""

import json

from art import Trajectory, TrajectoryGroup
from art.trajectories import History
from openai.types.chat.chat_completion import Choice


def art_history(record):
    entries = [Choice.model_validate(e) if "finish_reason" in e else e for e in record["messages_and_choices"]]
    return {"messages_and_choices": entries, "tools": record.get("tools")}

def art_trajectory(record):
    others = [History(**art_history(other)) for other in record.get("additional_histories", [])]
    return Trajectory(**record | art_history(record) | {"additional_histories": others})

def art_groups(path):
    with open(path, encoding="utf-8") as lines:
        return [TrajectoryGroup([*map(art_trajectory, json.loads(line)["trajectories"])]) for line in lines]
