"""The tokens of each reply are kept whole, or not at all and the user hears why."""

import json
from dataclasses import dataclass
from typing import Any

import pytest
from agents import Agent, function_tool
from hypothesis import given
from hypothesis import strategies as st

import harness
from harness.archive.store import MemoryStore
from harness.core.errors import ArchiveDamaged, Refused
from harness.core.progress import Silent
from harness.core.records import Rollout, to_json
from harness.core.redaction import Redactor
from harness.core.sampled_tokens import SampledTokens
from harness.rollouts.raw import pack_tokens, unpack_tokens
from harness.transcripts.transcript import transcribe
from tests.fake_endpoint import FakeEndpoint, Refuse, Say, Script, Seen
from tests.token_server import Kind, TokenServer, ids, logprob, rendered

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def first_calls_go_alone_for_as_long_as_they_take(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a first call may take longer than the others wait for it, and then each is refused."""
    for module in ("harness.rollouts.maker", "harness.endpoints.refused_settings"):
        monkeypatch.setattr(f"{module}.OPENS_AFTER_S", 600.0)


@function_tool
def look_up(word: str) -> str:
    """Look a word up."""
    return f"meaning of {word}"


AGENT = Agent(name="a", instructions="Be short.", tools=[look_up])


def script(seen: Seen) -> Say:
    """Call a tool twice, in turns, then answer."""
    if len(seen.tool_outputs) < 2:
        return Say(calls=(("look_up", {"word": f"w{len(seen.tool_outputs)}"}),))
    return Say("Done.")


class Notes(Silent):
    def __init__(self) -> None:
        self.heard: list[str] = []

    def note(self, text: str) -> None:
        self.heard.append(text)


@dataclass(frozen=True)
class Rolled:
    """Rollouts, what was asked and said meanwhile, and the tokens that the store holds."""

    rollouts: list[Rollout]
    seen: list[Seen]
    notes: list[str]
    store: MemoryStore

    def tokens(self, index: int = 0) -> list[SampledTokens | None]:
        name = self.rollouts[index].sampled_tokens
        return unpack_tokens(self.store.blobs[name]) if name else []


async def roll_out(server: Script, agent: Any = AGENT, **settings: Any) -> Rolled:
    notes, store = Notes(), MemoryStore(Redactor(patterns=settings.get("redact", ())))
    with FakeEndpoint(server).serving() as endpoint:
        known: dict[str, Any] = {"n": 2, "model": "m", "base_url": endpoint.base_url, "tokens": "auto"} | settings
        group = await harness.rollout(agent, "Why?", store=store, progress=notes, **known)
    return Rolled(list(group.rollouts), endpoint.requests, notes.heard, store)


def shown(tokens: SampledTokens | None) -> str:
    return "".join(map(chr, tokens.ids)) if tokens else ""


# ---- Servers that tell


@pytest.mark.parametrize("kind", ["vllm", "sglang", "old-sglang", "miles"])
async def test_every_reply_is_kept_in_tokens_those_with_tool_calls_too(kind: Kind):
    rolled = await roll_out(TokenServer(script, kind))
    for index in range(2):
        first, second, third = rolled.tokens(index)
        assert [shown(t) for t in (first, second)] == [f'[look_up {{"word": "w{i}"}}]</>' for i in range(2)]
        assert shown(third) == "Done.</>"
        assert third
        assert third.logprobs == tuple(logprob(place) for place in range(len("Done.</>")))
        assert third.prompt_ids == tuple(ids(rendered(rolled.seen[-1].body["messages"])))
        assert first
        assert second
        assert second.extends(first)
        assert third.extends(second)
    assert rolled.notes == []
    assert len(rolled.seen) == 6


async def test_they_stand_nowhere_but_in_their_blob_and_off_asks_for_nothing():
    told, off = [await roll_out(TokenServer(script), tokens=tokens) for tokens in ("auto", "off")]
    assert all(r.sampled_tokens is None and "sampled_tokens" not in to_json(r) for r in off.rollouts)
    assert not {"logprobs", "return_token_ids", "return_meta_info"} & off.seen[0].body.keys()
    texts = [told.store.blobs[str(r.raw_calls)] for r in told.rollouts]
    assert not any("logprob" in text.replace('"logprobs":[]', "") or "token_ids" in text for text in texts)
    read = [[transcribe(r.trajectory) for r in rolled.rollouts] for rolled in (told, off)]
    assert read[0] == read[1]
    assert [r.fingerprint for r in told.rollouts] == [r.fingerprint for r in off.rollouts]


async def test_a_stream_is_heard_too():
    inner = Agent(name="inner", instructions="Inner.", tools=[look_up])
    outer = Agent(name="outer", tools=[inner.as_tool("ask_inner", "Ask it.", on_stream=lambda event: None)])

    def nested(seen: Seen) -> Say:
        if seen.system == "Inner.":
            return script(seen)
        return Say("All.") if seen.tool_outputs else Say(calls=(("ask_inner", {"input": "go"}),))

    for kind in ("vllm", "sglang"):
        rolled = await roll_out(TokenServer(nested, kind), outer, n=1)
        assert [shown(t) for t in rolled.tokens()] == [
            '[ask_inner {"input": "go"}]</>',
            '[look_up {"word": "w0"}]</>',
            '[look_up {"word": "w1"}]</>',
            "Done.</>",
            "All.</>",
        ]
        assert all(t and t.logprobs for t in rolled.tokens())
        assert sum(bool(seen.body.get("stream")) for seen in rolled.seen) == (3 if kind == "vllm" else 4)
        assert rolled.rollouts[0].status == "ok"


# ---- Servers that do not


REFUSING = ["refusing", "refusing-by-message", "refusing-without-a-word"]


@pytest.mark.parametrize("kind", REFUSING)
async def test_auto_goes_on_after_one_refused_call(kind: Kind):
    rolled = await roll_out(TokenServer(script, kind), n=4)
    assert [r.status for r in rolled.rollouts] == ["ok"] * 4
    assert len(rolled.seen) == 13
    assert [r.sampled_tokens for r in rolled.rollouts] == [None] * 4
    (note,) = rolled.notes
    assert note.startswith("no token ids are recorded: the server refuses to tell token ids (")


async def test_auto_says_once_that_a_server_ignores_it():
    rolled = await roll_out(TokenServer(script, "ignoring"), n=4)
    assert len(rolled.seen) == 12
    assert "return_token_ids" not in rolled.seen[-1].body
    assert rolled.notes == [
        "no token ids are recorded: the server tells no token ids that can be used (it ignores return_token_ids)"
    ]


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("short", "ids where usage counts"),
        ("wrong-usage", "ids where usage counts"),
        ("no-prompt", "without the ids of the prompt"),
        ("llama.cpp", "without the ids of the prompt"),
    ],
)
async def test_ids_that_usage_does_not_count_are_dropped_and_said(kind: Kind, why: str):
    rolled = await roll_out(TokenServer(script, kind))
    assert [r.sampled_tokens for r in rolled.rollouts] == [None] * 2
    (note,) = rolled.notes
    assert why in note


async def test_one_reply_without_ids_leaves_those_of_the_others():
    servers = {kind: TokenServer(script, kind) for kind in ("vllm", "short")}

    def second_is_short(seen: Seen) -> Any:
        return servers["short" if len(seen.tool_outputs) == 1 else "vllm"](seen)

    rolled = await roll_out(second_is_short)
    assert [bool(t) for t in rolled.tokens()] == [True, False, True]
    assert [note.startswith("the token ids of some replies were dropped") for note in rolled.notes] == [True]


@pytest.mark.parametrize("kind", [*REFUSING, "ignoring", "short"])
async def test_require_ends_the_run_after_the_first_call(kind: Kind):
    server = TokenServer(script, kind)
    seen: list[Seen] = []

    def counted(request: Seen) -> Any:
        seen.append(request)
        return server(request)

    with pytest.raises(Refused, match=r"tokens='require': the server .*; tokens='auto' goes on without them"):
        await roll_out(counted, tokens="require", n=4)
    assert len(seen) == (2 if kind == "refusing-without-a-word" else 1)


async def test_require_ends_the_run_before_any_call_where_nothing_could_tell_them():
    with pytest.raises(Refused, match=r"only Chat Completions .* \(api='chat'\); vLLM"):
        await roll_out(script, tokens="require", api="responses")


async def test_an_error_that_is_not_about_tokens_costs_no_tokens():
    told = TokenServer(script)

    def first_is_too_long(seen: Seen) -> Any:
        if seen.body["temperature"] == 0:
            return Refuse(400, "maximum context length is 10 tokens", "context_length_exceeded")
        return told(seen)

    rolled = await roll_out(first_is_too_long, n=3)
    assert [r.status for r in rolled.rollouts] == ["failed", "ok", "ok"]
    assert all(rolled.tokens(1))
    assert rolled.notes == []


async def test_tokens_of_a_redacted_text_are_not_kept():
    rolled = await roll_out(TokenServer(script), redact=("meaning of w1",))
    assert all(r.raw_calls and r.sampled_tokens is None for r in rolled.rollouts)
    assert ["redacted" in note for note in rolled.notes] == [True]


# ---- The blob

NUMBERS = st.lists(st.integers(0, 2**32 - 1), max_size=6)
PROBABILITIES = st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def sampled(draw: st.DrawFn) -> SampledTokens:
    of_reply = tuple(draw(NUMBERS))
    logprobs = st.tuples(*[PROBABILITIES] * len(of_reply))
    return SampledTokens(tuple(draw(NUMBERS)), of_reply, draw(st.none() | logprobs))


@given(st.lists(st.none() | sampled(), max_size=5))
def test_a_blob_gives_back_what_was_packed(turns: list[SampledTokens | None]):
    grown = [
        t and SampledTokens((*(turns[0].all_ids if turns[0] else ()), *t.prompt_ids), t.ids, t.logprobs) for t in turns
    ]
    for packed in (turns, grown):
        assert unpack_tokens(pack_tokens(packed)) == packed


@pytest.mark.parametrize(
    "entry",
    [
        {"kept": 1, "prompt": "", "ids": ""},
        {"kept": 0, "prompt": "AAA=", "ids": ""},
        {"kept": 0, "prompt": "!", "ids": ""},
        {"kept": 0, "prompt": "", "ids": "AAAAAA==", "logprobs": ""},
        {"kept": 0, "prompt": "", "ids": "AAAAAA==", "logprobs": "AAAAAAAA+H8="},
        {"kept": -1, "prompt": "", "ids": ""},
        [],
        7,
    ],
)
def test_a_blob_that_nobody_packed_is_damage(entry: object):
    with pytest.raises(ArchiveDamaged, match="here"):
        unpack_tokens(json.dumps([entry]), "here")
