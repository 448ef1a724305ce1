"""A session that ends with an answer is a rollout of its group, recorded as `run` records one."""

import json
import threading
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from harness.archive.reader import RunReader
from harness.archive.run_info import RunInfo
from harness.cli.app import app
from harness.core.errors import UsageError
from harness.core.records import Rollout
from harness.core.settings_sources import load
from harness.formats.turns import join_turns
from harness.gateway.recorded import StreamedBody
from harness.gateway.serve import open_gateway, resolve_upstream
from harness.gateway.sessions import Declined, Sessions
from harness.pipeline.exporting.export import turns_from
from harness.pipeline.run_environment import RunEnvironment
from harness.pipeline.validation import validate_folder
from harness.rollouts.loading import load_agent
from tests.builders import AT
from tests.cli.conftest import judge
from tests.fake_endpoint import Cut, FakeEndpoint, Hang, Reaction, Refuse, Say, Seen, Torn, _events, chat_reply
from tests.gateway.serving import CHAT, Served, gateway, rollouts_in
from tests.token_server import TokenServer, ids, rendered, reply_text

SEARCH = {"type": "function", "function": {"name": "search", "description": "d", "parameters": {"type": "object"}}}


def searching(seen: Seen) -> Say:
    """Search twice, then answer: in another number of words each time."""
    if len(seen.tool_outputs) < 2:
        return Say(calls=(("search", {"q": f"w{len(seen.tool_outputs)}"}),), reasoning="Look.")
    return Say(f"Number {next(_NUMBERS)}.")


_NUMBERS = count(1)


def solve(served: Served, session: str, *, streams: bool = False, **more: Any) -> Rollout:
    """Play a tool agent by hand, and close its session with its answer."""
    messages: list[Any] = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Why?"}]
    with served.client(session) as client:
        while True:
            asked: Any = {"model": "m", "messages": messages, "tools": [SEARCH], "temperature": 1.0}
            if streams:
                with client.chat.completions.stream(**asked) as events:
                    message: Any = events.get_final_completion().choices[0].message
            else:
                message = client.chat.completions.create(**asked).choices[0].message
            if not message.tool_calls:
                break
            said = message.model_dump(exclude_unset=True, exclude={"parsed": True, "reasoning_content": True})
            said["tool_calls"] = [json.loads(call.model_dump_json(exclude={"index"})) for call in message.tool_calls]
            for call in said["tool_calls"]:
                call["function"].pop("parsed_arguments", None)
            messages += [said, {"role": "tool", "tool_call_id": said["tool_calls"][0]["id"], "content": "found"}]
    closed = served.close(session, message.content, **more)
    assert closed.status_code == 200, closed.text
    return Rollout.model_validate_json(closed.content)


@pytest.mark.parametrize("streams", [False, True])
def test_rollouts_hold_steps_calls_and_sampled_tokens(streams: bool, tmp_path: Path):
    endpoint = FakeEndpoint(TokenServer(searching), judge)
    with endpoint.serving(), gateway(endpoint.base_url, tmp_path) as served:
        rollout = solve(served, "s1", streams=streams, reward=0.5)
    (kept,) = rollouts_in(served.folder)
    assert kept == rollout
    assert (kept.origin, kept.origin_id, kept.given_reward, kept.capture) == ("gateway", "s1", 0.5, "full")
    thought = None if streams else "Look."  # this server streams none
    steps = [(s.kind, s.tool_name, s.tool_input, s.tool_output, s.reasoning) for s in kept.trajectory.path]
    assert steps == [("tool", "search", f'{{"q": "w{i}"}}', "found", thought) for i in range(2)]
    assert [(c.model, c.temperature, c.replied_model, c.usage and c.usage.requests) for c in kept.calls] == [
        ("m", 1.0, "m", 1)
    ] * 3
    assert (kept.instructions, kept.tool_names, kept.effective.uniform) == ("Be short.", ("search",), True)
    with RunReader(served.folder) as reader:
        turns = turns_from(reader)(kept)
    for turn in turns:
        assert turn.tokens
        assert turn.tokens.ids == tuple(ids(reply_text(turn.completion[0])))
        assert turn.tokens.prompt_ids == tuple(ids(rendered([*turn.context])))
        assert turn.tokens.logprobs
    assert validate_folder(served.folder, lambda: kept.started_at).findings == ()


def test_sessions_of_one_query_are_ranked_and_exported_to_the_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    endpoint = FakeEndpoint(TokenServer(searching), judge)
    with endpoint.serving():
        with gateway(endpoint.base_url, Path("runs")) as served:
            for number in range(4):
                solve(served, f"s{number}")
            served.chat("left-open")
        environ = {"OPENAI_API_KEY": "k"}

        def command(line: str) -> str:
            assert not app.main(line.split(), standalone_mode=False, obj=environ)
            return capsys.readouterr().out

        command(f"rescore last --judge-model j --judge-base-url {endpoint.base_url} -q --max-failures 9")
        assert "never" not in command("show last")
        command("validate last")
        command("export last --format groups -o out -q")
    (line,) = Path("out/train.jsonl").read_text().splitlines()
    group = json.loads(line)
    assert [member["index"] for member in group["rollouts"]] == [0, 1, 2, 3]
    for member in group["rollouts"]:
        (sequence,) = member["sequences"]  # each prompt goes on from what was sampled
        said = [reply_text(m) for m, mask in zip(sequence["messages"], sequence["message_mask"], strict=True) if mask]
        ours = [i for i, mask in zip(sequence["token_ids"], sequence["token_mask"], strict=True) if mask]
        assert ours == ids("".join(said))
        assert len(sequence["logprobs"]) == len(sequence["token_ids"])


def test_a_prompt_of_other_tokens_begins_a_sequence(tmp_path: Path):
    endpoint = FakeEndpoint(TokenServer(searching, retokenizes=True))
    with endpoint.serving(), gateway(endpoint.base_url, tmp_path) as served:
        rollout = solve(served, "s")
    with RunReader(served.folder) as reader:
        assert len(join_turns(turns_from(reader)(rollout), by_tokens=True)) > 1


def test_sessions_with_one_group_are_one_group_whatever_they_asked(tmp_path: Path):
    endpoint = FakeEndpoint()
    with endpoint.serving(), gateway(endpoint.base_url, tmp_path) as served:
        for number, (query, group) in enumerate([("A?", "g"), ("B?", "g"), ("A?", None), ("A?", None)]):
            served.chat(f"s{number}")
            assert served.close(f"s{number}", query=query, **({"group": group} if group else {})).status_code == 200
    places = [(r.query, r.index, r.trajectory.query) for r in rollouts_in(served.folder)]
    (other,) = {query for query, _, _ in places} - {"g"}
    assert sorted(places) == sorted([("g", 0, "A?"), ("g", 1, "B?"), (other, 0, "A?"), (other, 1, "A?")])


def test_open_sessions_are_kept_as_unanswered_when_the_run_ends(tmp_path: Path):
    endpoint = FakeEndpoint()
    with endpoint.serving(), gateway(endpoint.base_url, tmp_path) as served:
        served.chat("open")
    (kept,) = rollouts_in(served.folder)
    assert kept.failure
    assert (kept.failure.kind, kept.failure.type, kept.origin_id) == ("cancelled", "NotClosed", "open")
    assert (kept.trajectory.query, len(kept.calls)) == ("Why?", 1)


@pytest.mark.parametrize(
    ("say", "answer", "failure"),
    [
        (Say("It sc", finish="length"), "It sc", ("truncated", "length")),
        (Say("It scatters."), None, ("output", "NoAnswer")),
        (Say("It scatters."), {"n": 1}, None),
        (Say("It scatters."), "", None),
    ],
)
def test_how_a_session_ended_is_kept_with_its_cause(say: Say, answer: Any, failure: Any, tmp_path: Path):
    endpoint = FakeEndpoint(lambda _: say)
    with endpoint.serving(), gateway(endpoint.base_url, tmp_path) as served:
        served.chat("s")
        kept = Rollout.model_validate_json(served.close("s", answer).content)
    assert (kept.failure and (kept.failure.kind, kept.failure.type)) == failure
    assert kept.trajectory.answer_type == ("json" if isinstance(answer, dict) else "text")
    assert kept.raw_calls


@pytest.mark.parametrize(
    ("says", "closing", "failure"),
    [
        ([Refuse(500, "the GPU is on fire")], None, ("api", "the GPU is on fire")),
        ([Say("Yes."), Refuse(500, "the GPU is on fire")], "", ("api", "the GPU is on fire")),
        ([Refuse(500, "the GPU is on fire")], "not closed", ("api", "the GPU is on fire")),
        ([Refuse(400, "too long", "context_length_exceeded")], None, ("context_length", "too long")),
        ([Cut()], None, ("network", "Connection error.")),
        ([Torn(Say("It scatters blue light."))], None, ("network", "the stream broke off before its end")),
        ([Refuse(500), Say("Yes.")], "Yes.", None),
        ([Refuse(500), Say("Yes.")], None, ("output", "the session was closed without an answer")),
        ([Refuse(500)], "I do not know.", None),
    ],
)
def test_a_session_that_an_upstream_ended_fails_for_the_upstreams_reason(
    says: list[Reaction], closing: str | None, failure: tuple[str, str] | None, tmp_path: Path
):
    endpoint = FakeEndpoint(lambda _: says[len(endpoint.requests) - 1])
    with endpoint.serving(), gateway(endpoint.base_url, tmp_path, tokens="off") as served:
        for said in says:
            with suppress(httpx2.RemoteProtocolError):
                served.chat("s", stream=isinstance(said, Torn))
        if closing != "not closed":
            assert served.close("s", closing).status_code == 200
    (kept,) = rollouts_in(served.folder)
    assert (kept.failure and (kept.failure.kind, kept.failure.message)) == failure


@pytest.mark.parametrize("fails", [False, True])
def test_show_lists_sessions_that_no_judge_has_seen_and_says_what_to_type(
    fails: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    endpoint = FakeEndpoint(lambda _: Refuse(500, "on fire") if fails else Say("It scatters."))
    with endpoint.serving(), gateway(endpoint.base_url, Path("runs"), tokens="off") as served:
        for session in ("mine", "yours"):
            served.chat(session)
            served.close(session, None if fails else "It scatters.")

    def shown(line: str) -> str:
        assert not app.main(line.split(), standalone_mode=False, obj={})
        return capsys.readouterr().out

    said, told = shown("show last"), json.loads(shown("show last --json"))
    assert "Why?" in said
    assert all(name in said for name in ("mine", "yours"))
    command = f"gateway {served.folder.name} --upstream URL" if fails else f"rescore {served.folder.name} --judge-model"
    assert ("on fire" in said, command in said, "rescore" in said) == (fails, True, not fails)
    assert told["ranking"] is None
    ((*rollouts,),) = [group["rollouts"] for group in told["groups"]]
    assert [(r["origin_id"], r["rank"], r["status"]) for r in rollouts] == [
        (name, None, "failed" if fails else "ok") for name in ("mine", "yours")
    ]


@pytest.mark.parametrize(
    ("path", "body", "gap"),
    [
        ("responses", {"model": "m", "input": "B?", "previous_response_id": "resp_1"}, "previous_response_id"),
        ("responses", {"model": "m", "input": "B?", "conversation": "c"}, "conversation"),
        ("chat/completions", {**CHAT, "n": 2}, "n=2"),
        ("chat/completions", {**CHAT, "messages": [{"role": "user", "content": "A", "name": "Ann"}]}, "name"),
        ("chat/completions", {**CHAT, "functions": [{"name": "f"}]}, "functions"),
        ("chat/completions", {**CHAT, "messages": [{"role": "user"}, {"role": "alien"}]}, "messages"),
    ],
)
def test_what_the_record_has_no_place_for_makes_it_partial(path: str, body: Any, gap: str, tmp_path: Path):
    endpoint = FakeEndpoint(lambda _: Say("Yes."))
    with endpoint.serving(), gateway(endpoint.base_url, tmp_path) as served:
        assert served.post(f"/s/s/v1/{path}", body).status_code == 200
        kept = Rollout.model_validate_json(served.close("s").content)
    assert kept.capture == "partial"
    assert gap in kept.capture_gaps[0]


def test_a_stream_that_breaks_off_makes_the_rollout_partial(tmp_path: Path):
    endpoint = FakeEndpoint(lambda _: Torn(Say("It scatters blue light more than red light.")))
    with endpoint.serving(), gateway(endpoint.base_url, tmp_path, tokens="off") as served:
        with pytest.raises(Exception, match=r"(?i)peer|closed|incomplete|chunk"):
            served.chat("s", stream=True)
        kept = Rollout.model_validate_json(served.close("s").content)
    assert kept.capture_gaps == ("a stream that broke off before its end",)
    assert kept.calls[0].error


def test_a_client_that_leaves_ends_its_call(tmp_path: Path):
    endpoint = FakeEndpoint(lambda _: Hang(0.4) if len(endpoint.requests) < 2 else Say("Yes."))
    with endpoint.serving(), gateway(endpoint.base_url, tmp_path, tokens="off") as served:
        with pytest.raises(Exception, match="timed out"):
            served.http.post(f"{served.url}/s/s/v1/chat/completions", json=dict(CHAT), timeout=0.1)
        assert served.close("s").status_code == 409  # the call is under way
        while (closed := served.close("s")).status_code == 409:
            pass
    assert closed.json()["calls"][0]["error"]


def test_each_call_is_kept_with_the_version_of_the_policy(tmp_path: Path):
    endpoint = FakeEndpoint(lambda _: Say("Yes."))
    with endpoint.serving(), gateway(endpoint.base_url, tmp_path) as served:
        served.chat("s")
        for version in (3, 4):
            assert served.post("/policy", {"version": version}).status_code == 200
            served.chat("s")
        back = served.post("/policy", {"version": 2})
        kept = Rollout.model_validate_json(served.close("s").content)
    assert [call.policy for call in kept.calls] == [(), (3,), (4,)]
    assert back.status_code == 409
    assert "goes back from 4" in back.json()["error"]["message"]


@pytest.mark.parametrize("many", [60, pytest.param(1000, marks=pytest.mark.nightly)])
def test_no_session_is_left_over(many: int, tmp_path: Path):
    endpoint = FakeEndpoint(TokenServer(lambda _: Say("Yes.")))
    with endpoint.serving(), gateway(endpoint.base_url, tmp_path) as served:

        def work(worker: int) -> None:
            for number in range(many // 4):
                served.chat(f"{worker}-{number}")
                assert served.close(f"{worker}-{number}").status_code == 200

        threads = [threading.Thread(target=work, args=(worker,)) for worker in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert served.gateway.sessions.open == {}
    kept = rollouts_in(served.folder)
    assert sorted(r.index for r in kept) == list(range(many))
    assert {r.status for r in kept} == {"ok"}


def test_a_run_goes_on_where_it_was_left(tmp_path: Path):
    endpoint = FakeEndpoint(lambda _: Say("Yes."))
    with endpoint.serving():
        with gateway(endpoint.base_url, tmp_path) as first:
            first.chat("a")
            first.close("a")
        with gateway(endpoint.base_url, tmp_path, folder=first.folder) as second:
            assert second.chat("a").json()["error"]["code"] == "session_closed"
            second.chat("b")
            second.close("b")
    assert [(r.origin_id, r.index) for r in rollouts_in(first.folder)] == [("a", 0), ("b", 1)]


def test_tokens_of_a_redacted_session_are_not_kept(tmp_path: Path):
    endpoint = FakeEndpoint(TokenServer(lambda _: Say("The code is swordfish.")))
    with endpoint.serving(), gateway(endpoint.base_url, tmp_path, redact=("swordfish",)) as served:
        assert "swordfish" in served.chat("s").text
        kept = Rollout.model_validate_json(served.close("s", "swordfish").content)
    assert kept.sampled_tokens is None
    assert "swordfish" not in kept.trajectory.answer
    assert "token ids" in served.progress.notes[0]


def test_a_stream_adds_up_to_the_body_of_the_same_call():
    for say in (Say("It scatters."), Say(calls=(("a", {"x": 1}), ("b", {}))), Say("Cut", finish="length")):
        whole, streamed = chat_reply(say, dict(CHAT), 1), StreamedBody()
        for line in _events(whole, wants_usage=True).splitlines():
            if line.startswith("data: {"):
                streamed.add(json.loads(line[6:]))
        got = streamed.whole()
        assert got
        (choice,) = got["choices"]
        calls = [{k: v for k, v in c.items() if k != "index"} for c in choice["message"].get("tool_calls", ())]
        usual = whole["choices"][0]
        assert calls == usual["message"].get("tool_calls", [])
        assert choice["message"]["content"] == usual["message"]["content"]
        assert (choice["finish_reason"], got["usage"]) == (usual["finish_reason"], whole["usage"])


def test_a_session_is_closed_once_and_not_while_a_call_runs():
    sessions = Sessions()
    session = sessions.begin_call("a", AT)
    with pytest.raises(Declined) as running:
        sessions.close("a")
    assert (running.value.status, running.value.code) == (409, "call_under_way")
    session.running = 0
    assert sessions.close("a") is session
    for again in (lambda: sessions.close("a"), lambda: sessions.begin_call("a", AT)):
        with pytest.raises(Declined) as closed:
            again()
        assert (closed.value.status, closed.value.code) == (409, "session_closed")
    sessions.reopen(session)  # its rollout could not be kept
    assert sessions.close("a") is session


def test_an_agent_names_the_server_and_the_rubric(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    Path("own.py").write_text('from agents import Agent\nagent = Agent(name="own")\nRUBRIC = "writing"\n')
    url, agent = "http://127.0.0.1:9/v1", load_agent("own.py", tmp_path)

    async def opened() -> RunInfo:
        run_env = RunEnvironment({"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": url})
        found = await resolve_upstream(agent, load({"runs_dir": tmp_path / "runs"}), run_env)
        assert (found.endpoint.url, found.settings.rubric) == (url, "writing")
        async with open_gateway(found, run_env) as gateway:
            return gateway.keeper.store.reader.info

    info = anyio.run(opened)
    assert (info.agent, info.agent_word, info.judge) == ("own", "own.py", {})
    assert info.endpoint == {"base_url": url, "api": "chat"}


def test_what_is_partial_trains_nothing_and_no_code_replays_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    endpoint = FakeEndpoint(TokenServer(searching), judge)
    with endpoint.serving():
        with gateway(endpoint.base_url, Path("runs")) as served:
            for number in range(3):
                solve(served, f"s{number}")
            served.chat("s3", n=2)
            served.close("s3", "Number 0.")
        line = f"rescore last --judge-model j --judge-base-url {endpoint.base_url} -q"
        app.main(line.split(), standalone_mode=False, obj={"OPENAI_API_KEY": "k"})
    app.main("export last --format groups -o out".split(), standalone_mode=False, obj={})
    assert "1 rollout: not all of its calls are recorded" in capsys.readouterr().err
    (line,) = Path("out/train.jsonl").read_text().splitlines()
    assert [member["index"] for member in json.loads(line)["rollouts"]] == [0, 1, 2]
    with pytest.raises(UsageError, match="other program"):
        app.main("replay last".split(), standalone_mode=False, obj={})
    with pytest.raises(UsageError, match="another program made its calls"):
        app.main("fork last --at 0".split(), standalone_mode=False, obj={})
    app.main("resume last".split(), standalone_mode=False, obj={})
    assert "nothing" in capsys.readouterr().out
