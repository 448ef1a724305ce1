"""What is exported, imported and exported again is the same, and buys no verdict; what does not fit is named."""

import json
import shutil
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from harness.archive.reader import RunReader
from harness.cli.app import app
from harness.core.errors import UsageError
from tests.cli.conftest import AGENT, agents, judge, outside_of_tests
from tests.fake_endpoint import FakeEndpoint, Say

Command = Callable[..., str]
STRUCTURED = """\
from agents import Agent
from pydantic import BaseModel

class Number(BaseModel):
    number: int

agent = Agent(name="s", instructions="Structured.", output_type=Number)
"""


def answers() -> Callable[[Any], Any]:
    numbers, others = count(1), agents()
    return lambda seen: Say(f'{{"number": {next(numbers)}}}') if seen.system == "Structured." else others(seen)


@pytest.fixture(scope="module")
def made(user_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, FakeEndpoint]]:
    """A working folder with a run of each agent, and the endpoint that they were made at."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "agent.py").write_text(AGENT)
    (folder / "structured.py").write_text(STRUCTURED)
    (folder / "q.txt").write_text("Why 1?\nWhy 2?\nWhy 3?\n")
    judged = "--judge-model j --topology round_robin --order both --concurrency 1 -q"
    with FakeEndpoint(answers(), judge).serving() as endpoint:
        with outside_of_tests(folder, user_folder):
            for name in ("agent", "structured"):
                line = f"run --agent {name}.py:agent --queries q.txt -n 4 --model m {judged}"
                assert not app.main(line.split(), standalone_mode=False, obj=environ_of(endpoint))
        yield folder, endpoint


def environ_of(endpoint: FakeEndpoint) -> dict[str, str]:
    return {"OPENAI_BASE_URL": endpoint.base_url, "OPENAI_API_KEY": "sk-test-of-export", "COLUMNS": "80"}


@pytest.fixture
def command(
    made: tuple[Path, FakeEndpoint],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Command:
    folder, endpoint = made
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)

    def run(line: str) -> str:
        asked = len(endpoint.requests)
        assert not app.main(line.split(), standalone_mode=False, obj=environ_of(endpoint))
        assert len(endpoint.requests) == asked
        return capsys.readouterr().out

    return run


def data_of(folder: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(folder).iterdir() if path.name != "README.md"}


def imported(command: Command, *files: str) -> Any:
    return json.loads(command(f"import {' '.join(files)} --json"))


WAYS = [
    "--format groups --include-anchor --split train=0.5,test=0.5",
    "--format art --split train=0.5,test=0.5",
    "--format dpo --pairs all",
    "--format openai-preference --pairs best-all --split train=0.5,test=0.5",
    "--format sft --style trl-turns",
    "--format sft",
    "--format atif --split train=0.5,test=0.5",
    "--format sft --style openai",
]


@pytest.mark.few(4)
@pytest.mark.parametrize("way", WAYS)
def test_export_import_export_gives_the_same_bytes_for_no_verdict(command: Command, way: str):
    runs = [path.name for path in Path("runs").iterdir()]
    command(f"export {' '.join(runs)} {way} -o first")
    made = imported(command, "first")
    assert made["not_kept"] == {}
    command(f"export {made['path']} {way} -o second")
    assert data_of("second") == data_of("first")
    assert "whole" in command(f"validate {made['path']}")
    with RunReader(Path(made["path"])) as reader:
        assert not list(reader.verdicts())
        assert "atif" in way or reader.ranking().finished


def test_parallel_calls_nested_agents_reasoning_and_structured_output_survive(command: Command):
    runs = [path.name for path in Path("runs").iterdir()]
    command(f"export {' '.join(runs)} --format groups -o out")
    lines = [json.loads(line) for line in Path("out/train.jsonl").read_text("utf-8").splitlines()]
    sequences = [s for line in lines for rollout in line["rollouts"] for s in rollout["sequences"]]
    assert any(len(m.get("tool_calls", ())) == 3 for s in sequences for m in s["messages"])
    assert any("within" in s for s in sequences)
    assert any("output_schema" in s for s in sequences)
    sequences[0]["messages"][-1]["reasoning_content"] = "I think."
    del lines[0]["rollouts"][0]["advantage"]
    lines[1]["rollouts"][0] |= {"failed": "max_turns", "extra": 1}
    Path("edited.jsonl").write_text("\n".join(map(json.dumps, lines)), "utf-8")
    made = imported(command, "edited.jsonl")
    assert made["not_kept"] == {"the key 'extra' of a rollout": 1}
    command(f"export {made['path']} --format groups --include-failed -o again")
    del lines[1]["rollouts"][0]["extra"]
    again = [json.loads(line) for line in Path("again/train.jsonl").read_text("utf-8").splitlines()]
    lines[0]["rollouts"][0]["advantage"] = again[0]["rollouts"][0]["advantage"]  # made anew of the rewards
    assert again == lines
    source = json.loads(Path("again/sources.jsonl").read_text("utf-8").splitlines()[0])
    assert source["run"] == made["run"]  # no file said what was behind the edited lines


def test_an_import_tells_queries_that_are_ranked_wholly_from_others(command: Command):
    command("export --format groups --include-anchor -o out")
    lines = [json.loads(line) for line in Path("out/train.jsonl").read_text("utf-8").splitlines()][:3]
    Path("whole.jsonl").write_text("\n".join(map(json.dumps, lines)), "utf-8")
    assert "3 queries ranked as the file says; no judge was asked" in command("import whole.jsonl")
    del lines[0]["rollouts"][1]["reward"]
    for rollout in lines[1]["rollouts"]:
        rollout["reward"] = rollout["advantage"] = None
    Path("none.jsonl").write_text(json.dumps(lines[1]), "utf-8")
    Path("parts.jsonl").write_text("\n".join(map(json.dumps, lines)), "utf-8")
    said = command("import parts.jsonl")
    assert "ranked as the file says: 1 query wholly, 1 query in part, 1 query not at all; no judge was asked" in said
    assert [group["ranked"] for group in imported(command, "parts.jsonl")["groups"]] == [
        "in part",
        "not at all",
        "wholly",
    ]
    said = command("import none.jsonl")
    assert "ranked as the file says: 1 query not at all; no judge" in said
    assert "rescore" in said.splitlines()[-1]


def test_rollouts_that_come_without_a_reward_have_no_place_and_a_note_says_so(command: Command):
    command("export --format groups --include-anchor -o out")
    lines = [json.loads(line) for line in Path("out/train.jsonl").read_text("utf-8").splitlines()]
    del lines[0]["rollouts"][1]["reward"]
    lines[1]["rollouts"][0]["reward"] = None
    Path("edited.jsonl").write_text("\n".join(map(json.dumps, lines[:2])), "utf-8")
    made = imported(command, "edited.jsonl")
    shown = command(f"show {made['path']}")
    assert "note: 1 rollout came without a reward, and without a place therefore: 1." in " ".join(shown.split())
    assert "whole" in command(f"validate {made['path']}")
    command(f"export {made['path']} --format groups --include-anchor -o again")
    again = [json.loads(line) for line in Path("again/train.jsonl").read_text("utf-8").splitlines()]
    assert [len(line["rollouts"]) for line in again] == [3, 3]


def test_an_imported_group_is_judged_anew_by_rescore(command: Command):
    command("export --format groups -o out")
    made = imported(command, "out/train.jsonl")
    records = {path: path.read_bytes() for path in Path(made["path"]).rglob("*") if path.is_file()}
    assert "nothing to do" in command(f"resume {made['path']} -q")
    assert {path: path.read_bytes() for path in Path(made["path"]).rglob("*") if path.is_file()} == records
    command(f"show {made['path']}")
    command(f"stats {made['path']}")
    with RunReader(Path(made["path"])) as reader:
        (line, *_) = Path("out/train.jsonl").read_text("utf-8").splitlines()
        places = [(r.index, r.reward, r.advantage) for r in reader.ranking().groups[0].rollouts]
    assert places == [(r["index"], r["reward"], r["advantage"]) for r in json.loads(line)["rollouts"]]
    command(f"rescore {made['path']} --judge-model offline-features -q")
    command(f"export {made['path']} --format csv -o table --allow-offline")


def test_preferences_of_others_are_imported_and_exported(command: Command):
    shared = [{"role": "user", "content": "Why?"}]
    lines: list[Any] = [
        {"prompt": "Why?", "chosen": "As.", "rejected": "No."},
        {
            "chosen": [*shared, {"role": "assistant", "content": "Yes."}],
            "rejected": [*shared, {"role": "assistant", "content": "No."}],
            "score": 1,
        },
    ]
    Path("p.jsonl").write_text("\n".join(map(json.dumps, lines)))
    made = imported(command, "p.jsonl")
    assert made["not_kept"] == {"the key 'score'": 2}
    command(f"export {made['path']} --format dpo -o out")
    out = [json.loads(line) for line in Path("out/train.jsonl").read_text("utf-8").splitlines()]
    assert [line["prompt"] for line in out] == [shared, shared]
    assert [(line["chosen"][0]["content"], line["rejected"][0]["content"]) for line in out] == [
        ("As.", "No."),
        ("Yes.", "No."),
    ]


SEQUENCE = {"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]}
ROLLOUT: dict[str, Any] = {"index": 0, "role": "sample", "reward": 1.0, "sequences": [SEQUENCE]}
GROUP: dict[str, Any] = {"query_id": "q", "signal": "ok", "judge": "j", "rollouts": [ROLLOUT]}


def with_rollout(**more: Any) -> Any:
    return GROUP | {"rollouts": [ROLLOUT | more]}


def with_sequence(**more: Any) -> Any:
    return with_rollout(sequences=[SEQUENCE | more])


CHOICE = {"finish_reason": "stop", "index": 0, "logprobs": None, "message": {"role": "assistant", "content": "y"}}


def art_group(*entries: Any, **more: Any) -> Any:
    return {
        "trajectories": [{"messages_and_choices": [{"role": "user", "content": "x"}, *entries], "reward": 1} | more]
    }


def choice_of(token: Any, logprob: Any) -> Any:
    return CHOICE | {"logprobs": {"content": [{"token": token, "logprob": logprob}]}}


def test_groups_of_art_from_elsewhere_keep_metrics_metadata_and_sampled_tokens(command: Command):
    other = {"messages_and_choices": [{"role": "user", "content": "x"}, CHOICE], "tools": None}
    good = art_group(choice_of("token_id:7", -0.5), metrics={"own": 2}, metadata={"mine": "a"}, logs=["so"])
    said = {"role": "assistant", "content": "Because of many things, of which this is the first. " * 9}
    worse = art_group(
        CHOICE | {"finish_reason": "length", "message": said}, reward=0.25, additional_histories=[other], start=1
    )
    group = {"trajectories": good["trajectories"] + worse["trajectories"]}
    Path("art.jsonl").write_text(json.dumps(group))
    made = imported(command, "art.jsonl")
    assert made["not_kept"] == {
        "the key 'start' of a trajectory": 1,
        "a finish_reason other than stop and tool_calls": 1,
    }
    command(f"export {made['path']} --format art -o out")
    first, second = json.loads(Path("out/train.jsonl").read_text("utf-8"))["trajectories"]
    assert (first["metrics"], first["metadata"], first["logs"]) == ({"own": 2}, {"mine": "a"}, ["so"])
    assert first["messages_and_choices"][1]["logprobs"]["content"][0]["token"] == "token_id:7"
    assert (second["reward"], len(second["additional_histories"])) == (0.25, 1)
    command(f"export {made['path']} --format groups -o groups")  # whose ids begin with the prompt, which is not known
    (line,) = Path("groups/train.jsonl").read_text("utf-8").splitlines()
    assert "token_ids" not in line
    command(f"rescore {made['path']} --judge-model offline-features -q")
    command(f"export {made['path']} --format art -o anew --allow-offline --include-flagged")
    anew = json.loads(Path("anew/train.jsonl").read_text("utf-8"))["trajectories"]
    assert {trajectory["metadata"]["judge"] for trajectory in anew} == {"offline-features"}


BAD: list[tuple[Any, str]] = [
    ({"trajectories": []}, "`trajectories` must be a list of trajectories"),
    (art_group(), "trajectory 0: it holds no Choice"),
    (art_group(CHOICE, reward=None), "trajectory 0: `reward` must be a number"),
    (art_group(CHOICE, reward=1e9), "trajectory 0: `reward` is 1e.09"),
    (art_group(CHOICE | {"message": {"role": "user", "content": "y"}}, CHOICE), "not the assistant's"),
    (art_group(choice_of("token_id:x", -1)), "trajectory 0: "),
    (art_group(choice_of("token_id:1", "x")), "token ids must be whole numbers, logprobs numbers"),
    (GROUP | {"signal": "high"}, "the signal is 'high'"),
    (GROUP | {"rollouts": []}, "`rollouts` must be a list of rollouts"),
    (GROUP | {"rollouts": [ROLLOUT, ROLLOUT]}, "an index of its own"),
    (with_rollout(index=-1), "an index of its own"),
    (with_rollout(index=True), "an index of its own"),
    (with_rollout(index=10**400), "an index of its own"),
    (with_rollout(role="king"), "rollout 0: the role is 'king'"),
    (with_rollout(reward="high"), "rollout 0: reward"),
    (with_rollout(reward=1e9), "rollout 0: `reward` is 1e.09"),
    (with_rollout(failed="luck"), "rollout 0: `failed` is 'luck'"),
    (with_rollout(sequences=[]), "rollout 0: `sequences` must be"),
    (with_sequence(message_mask=[1]), "`message_mask` must be a list of 2 numbers"),
    (with_sequence(message_mask=[0, "1"]), "`message_mask` must be a list of 2 numbers"),
    (with_sequence(message_mask=[0, 0]), "marks no message"),
    (with_sequence(message_mask=[1, 0]), "marks a message that is not the assistant's"),
    (with_sequence(tools=[{"function": {"name": 5}}]), "a tool without a name"),
    (with_sequence(token_ids=[1, 2]), "`token_mask` must be a list of 2 numbers"),
    (with_sequence(token_ids=[1, 2], token_mask=[0, 0]), "marks 0 runs of tokens, `message_mask` 1"),
    (with_sequence(token_ids=[1, 2], token_mask=[0, 1], logprobs=[1]), "`logprobs` must be a list of 2"),
    (with_sequence(token_ids=[1, "a"], token_mask=[0, 1]), "token ids must be whole numbers"),
    (GROUP | {"query_id": "a\u202eb"}, "holds a character that is not shown"),
    ({"prompt": 5, "chosen": [], "rejected": []}, "`prompt` must be a text or a list of messages"),
    ({"prompt": "x", "chosen": [], "rejected": []}, "no message is an assistant's"),
    ({"input": {"messages": []}, "preferred_output": 5}, "`preferred_output` must be a text or a list"),
    ({"prompt": [], "completion": [{"role": "robot"}]}, "message 1 has the role 'robot'"),
]


def test_a_hostile_line_is_refused_by_file_and_line_and_leaves_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    for document, complaint in BAD:
        Path("t.jsonl").write_text(f"{json.dumps(GROUP)}\n{json.dumps(document)}\n")
        with pytest.raises(UsageError, match=rf"t\.jsonl:2: .*{complaint}"):
            app.main(["import", "t.jsonl"], standalone_mode=False, obj={})
    Path("t.jsonl").write_text(json.dumps(GROUP))
    for source in ("{", '{"file": "t.jsonl", "line": "x", "sha256": 1}', '{"file": "t.jsonl", "line": 1, "sha256": 1}'):
        Path("sources.jsonl").write_text(f"\n{source}\n")
        with pytest.raises(UsageError, match=r"sources\.jsonl:2: "):
            app.main(["import", "t.jsonl"], standalone_mode=False, obj={})
    assert not Path("runs").exists()
    Path("empty").mkdir()
    with pytest.raises(UsageError, match="no file of JSONL in this folder"):
        app.main(["import", "empty"], standalone_mode=False, obj={})
