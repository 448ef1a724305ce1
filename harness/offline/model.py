"""`offline-extractive`: an SDK Model that plans searches, calls the search tool, and writes from the results.

An embedded proposer beside it writes instructions from what the embedded judge measured. Neither is a language model.
The model is greedy at temperature 0; above it every choice is drawn by softmax from an rng. Pure: no SDK here.
"""

import json
import math
import random
import re
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from agents import FunctionTool, Model, ModelResponse, ModelSettings, ModelTracing, Tool, Usage, generation_span
from agents.items import TResponseInputItem, TResponseOutputItem
from openai.types import responses
from openai.types.responses.response_reasoning_item import Summary

from harness.core.settings import OFFLINE_MODEL
from harness.endpoints.usage import completed
from harness.offline import tool

T = TypeVar("T")

FORBIDS_SEARCH = re.compile(r"\b(?:do not|don't|never) (?:use the )?search\b", re.IGNORECASE)
"""What instructions say that make the model write from memory: from the packaged corpus, without a search."""
_SEARCHES = 5
_WORDS = 230


@dataclass
class Chooser:
    """Draws from scored options: the best one at temperature 0, else by softmax of score over temperature."""

    temperature: float
    rng: random.Random

    def pick(self, scored: Sequence[tuple[float, T]]) -> T:
        """Return one option."""
        if self.temperature == 0:
            return max(scored, key=lambda s: s[0])[1]
        top = max(s for s, _ in scored)
        weights = [math.exp((s - top) / self.temperature) for s, _ in scored]
        return self.rng.choices([option for _, option in scored], weights)[0]


@dataclass(frozen=True)
class SearchHistory:
    """What the searches so far brought: their words, and the passages of each."""

    searches: tuple[str, ...] = ()
    results: tuple[tuple[tool.Passage, ...], ...] = ()

    @property
    def passages(self) -> list[tool.Passage]:
        """All passages, each once, in the order found."""
        return list(dict.fromkeys(p for result in self.results for p in result))


@dataclass(frozen=True)
class Move:
    """The next move: a search, or None for writing; and why."""

    search: str | None
    why: str


def next_move(query: str, history: SearchHistory, chooser: Chooser) -> Move:
    """Return the next move: the request's own key words first, then names that the results bring up."""
    keys = tool.keywords(query)
    if not history.searches:
        picked = [k for k in keys if chooser.pick([(2.5, True), (0.0, False)])] or keys
        return Move(" ".join(picked), f"The request is about: {', '.join(keys)}. I look for that first.")
    if not on_topic(query, history):
        # the request's words one by one, the longest first
        left = [
            k for k in sorted(keys, key=len, reverse=True) if k not in history.searches and k not in tool.GENERAL_WORDS
        ]
        if left and len(keys) > 1 and len(history.searches) < _SEARCHES - 1:
            return Move(left[0], f"Nothing about the request was found; I try the single word {left[0]!r}.")
        return Move(None, "Nothing about the request was found; I say so.")
    topics = _topics(keys, history)
    enough = len(history.searches) >= _SEARCHES or not topics
    if enough or chooser.pick([(1.5, False), (0.0, True)]):
        articles = len({p.title for p in history.passages})
        return Move(None, f"{len(history.passages)} passages from {articles} articles are enough to write from.")
    topic = chooser.pick([(score, name) for name, score in topics])
    named = ", ".join(name for name, _ in topics[:4])
    return Move(f"{topic} {keys[-1]}", f"The results bring up {named}. I look further into {topic}.")


def on_topic(query: str, history: SearchHistory) -> bool:
    """Return whether any passage found is about the request, and not just shares a common word with it."""
    return any(tool.is_about(query, p.title, p.text) for p in history.passages)


def write_summary(query: str, history: SearchHistory, chooser: Chooser) -> str:
    """Return an extractive summary of the passages, two or three paragraphs; or say that nothing was found."""
    if not on_topic(query, history):
        tried = "; ".join(f"{s!r}" for s in history.searches)
        subject = " ".join(tool.keywords(query))
        return f"The corpus has nothing on {subject!r}." + (f" Searches tried: {tried}." if tried else "")
    limit = _WORDS if chooser.temperature == 0 else round(chooser.rng.gauss(_WORDS, 90 * min(chooser.temperature, 1.5)))
    chosen = _sentences(query, history.passages, max(60, limit), chooser)
    if chooser.pick([(1.0, True), (-0.5, False)]):
        chosen.sort(key=lambda s: tool.first_year(s) or 3000)  # in the order of time
    size = math.ceil(len(chosen) / min(3, max(1, len(chosen) // 3)))
    return "\n\n".join(" ".join(chosen[i : i + size]) for i in range(0, len(chosen), size))


def _topics(keys: Sequence[str], history: SearchHistory) -> list[tuple[str, float]]:
    """Return titles and names not yet searched for, with how many passages speak of them, most first."""
    searched = {w for s in history.searches for w in tool.content_stems(s)} | {tool.stem(k) for k in keys}
    spoken = Counter(w for p in history.passages for w in tool.content_stems(p.text))
    candidates = [p.title for p in history.passages] + [n for p in history.passages for n in tool.NAME.findall(p.text)]
    scored: dict[str, float] = {}
    for name in dict.fromkeys(candidates):
        fresh = [w for w in tool.content_stems(name) if w not in searched]
        if fresh:
            scored[name] = max(spoken[w] for w in fresh) * 0.5
    return sorted(scored.items(), key=lambda t: (-t[1], t[0]))[:12]


def _sentences(query: str, passages: Sequence[tool.Passage], limit: int, chooser: Chooser) -> list[str]:
    """Choose sentences up to `limit` words: about the request, typical of what was found, new beside those chosen."""
    wanted = {tool.stem(k) for k in tool.keywords(query)}
    pool = [(s, position) for p in passages for position, s in enumerate(tool.split_sentences(p.text))]
    common = Counter(w for s, _ in pool for w in tool.content_stems(s))
    chosen: list[str] = []
    covered: Counter[str] = Counter()
    length = 0
    while pool and length < limit:
        pick = chooser.pick([(_score(*candidate, wanted, common, covered), candidate) for candidate in pool])
        pool.remove(pick)
        sentence, _ = pick
        chosen.append(sentence)
        covered.update(tool.content_stems(sentence))
        length += len(sentence.split())
    return chosen


def _score(sentence: str, position: int, wanted: set[str], common: Counter[str], covered: Counter[str]) -> float:
    """Score a sentence at a position in its passage; `covered` counts the stems of the sentences chosen so far."""
    stems = tool.content_stems(sentence) or frozenset({""})
    typical = sum(min(common[w], 6) for w in stems) / len(stems) / 3
    stale = sum(1 for w in stems if covered[w]) / len(stems)
    fitting = len(stems & wanted) / max(1, len(wanted))
    return 2.0 * fitting + typical + 0.6 / (1 + position) - 2.5 * stale


class OfflineModel(Model):
    """Greedy at temperature 0 (the same twice), softmax-sampled above it from `rng`. Not a language model."""

    model = OFFLINE_MODEL

    def __init__(self, rng: random.Random) -> None:
        """Draw every choice from `rng`; one model a rollout, so that rollouts do not share chance."""
        self._rng = rng

    async def get_response(
        self,
        system_instructions: str | None,
        input: str | list[TResponseInputItem],  # noqa: A002 - the SDK's name
        model_settings: ModelSettings,
        tools: list[Tool],
        output_schema: Any,
        handoffs: Any,
        tracing: ModelTracing,
        **_: Any,
    ) -> ModelResponse:
        """Return reasoning and a search, or reasoning and the answer."""
        del output_schema, handoffs
        items = [{"role": "user", "content": input}] if isinstance(input, str) else cast("list[dict[str, Any]]", input)
        config = {"temperature": model_settings.temperature, "top_p": model_settings.top_p}
        system = [{"role": "system", "content": system_instructions}] if system_instructions else []
        with generation_span(
            input=[*system, *items], model=self.model, model_config=config, disabled=tracing.is_disabled()
        ) as span:
            chooser = Chooser(model_settings.temperature or 0.0, self._rng)
            output, message = _reply(
                items, tools, chooser, forbidden=bool(FORBIDS_SEARCH.search(system_instructions or ""))
            )
            span.span_data.output = [message]
            return ModelResponse(output=output, usage=Usage(requests=1), response_id=None)

    async def stream_response(self, *args: Any, **more: Any) -> AsyncIterator[Any]:
        """Stream what `get_response` returns, as one event."""
        yield completed(await self.get_response(*args, **more))


def _reply(
    items: Sequence[dict[str, Any]], tools: Sequence[Tool], chooser: Chooser, *, forbidden: bool
) -> tuple[list[TResponseOutputItem], dict[str, Any]]:
    """Return the reply's items, and the reply as a chat message, which a generation span holds for other models."""
    search = next((t for t in tools if isinstance(t, FunctionTool) and _argument(t)), None)
    asked = [_text(i.get("content")) for i in items if i.get("role") == "user"]
    calls = {i["call_id"]: i for i in items if i.get("type") == "function_call"}
    outputs = [i for i in items if i.get("type") == "function_call_output" and i["call_id"] in calls]
    searches = [" ".join(str(v) for v in json.loads(calls[o["call_id"]]["arguments"]).values()) for o in outputs]
    results = [tuple(tool.parse_passages(_text(o["output"]))) for o in outputs]
    query, history = asked[-1] if asked else "", SearchHistory(tuple(searches), tuple(results))
    move = Move(None, "There is no search tool to call, and nothing is known here without one.")
    if search and forbidden:
        move = Move(None, "I am told not to search: I write from memory.")
        history = SearchHistory(results=(tuple(tool.open_corpus().search(" ".join(tool.keywords(query)))),))
    elif search:
        move = next_move(query, history, chooser)
    number, summary = len(searches) + 1, [Summary(text=move.why, type="summary_text")]
    thought = responses.ResponseReasoningItem(id=f"rs_{number}", summary=summary, type="reasoning")
    message: dict[str, Any] = {"role": "assistant", "content": None, "reasoning_content": move.why}
    if search and move.search:
        arguments, call_id = json.dumps({_argument(search): move.search}), f"call_{number}"
        call = responses.ResponseFunctionToolCall(
            arguments=arguments, call_id=call_id, name=search.name, type="function_call"
        )
        function = {"name": search.name, "arguments": arguments}
        message["tool_calls"] = [{"id": call_id, "type": "function", "function": function}]
        return [thought, call], message
    message["content"] = write_summary(query, history, chooser)
    text = responses.ResponseOutputText(annotations=[], text=message["content"], type="output_text")
    answer = responses.ResponseOutputMessage(
        id="msg_1", content=[text], role="assistant", status="completed", type="message"
    )
    return [thought, answer], message


def _argument(search: FunctionTool) -> str | None:
    """Return the one text that a tool takes; None for a tool that this model does not know how to call."""
    properties = search.params_json_schema.get("properties", {})
    required = search.params_json_schema.get("required", [])
    texts = [name for name in required if properties[name].get("type") == "string"]
    return texts[0] if len(texts) == 1 == len(required) else None


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return " ".join(str(part.get("text", "")) for part in content or [] if isinstance(part, dict))  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType, reportUnknownArgumentType]


_SEARCH_FIRST = "Search for what you are asked about, before you write."
_ADVICE = {
    "understanding": _SEARCH_FIRST,
    "logic": _SEARCH_FIRST,
    "richness": "Search for several sides of the subject.",
    "relevance": "Name the subject in the words of the request.",
    "content_quality": "Write what the search results say, and nothing else.",
    "language_style": "Write sentences of ten to thirty words.",
    "clarity": "Write two to four paragraphs, in the order of time.",
}
"""What mends a low mark in each dimension."""
_LOW = 5.0


def rewritten(text: str, marks: Sequence[Mapping[str, float]], count: int) -> list[str]:
    """Return at most `count` new texts for instructions whose rollouts got these marks, by dimension.

    The lowest marks are mended first: where they are those of the path, a sentence that forbids to search is left out.
    """
    names = dict.fromkeys(name for each in marks for name in each if name in _ADVICE)
    means = {name: sum(each.get(name, 10.0) for each in marks) / len(marks) for name in names}
    sentences = [line for block in text.split("\n") for line in (tool.split_sentences(block) or [""])]
    texts: list[str] = []
    for name in sorted(means, key=lambda name: means[name]):
        searched = _ADVICE[name].startswith("Search") and means[name] < _LOW
        kept = [line for line in sentences if not (searched and FORBIDS_SEARCH.search(line))]
        new = "\n".join([*kept, _ADVICE[name]]).strip()
        if _ADVICE[name] not in text and new not in texts:
            texts.append(new)
    return texts[:count]


def joined_texts(text: str, other: str) -> str:
    """Return the sentences of two texts, those of the first one first, each once; none forbids what the other asks."""
    lines = dict.fromkeys([*text.split("\n"), *other.split("\n")])
    if not all(FORBIDS_SEARCH.search(each) for each in (text, other)):
        lines = dict.fromkeys(line for line in lines if not FORBIDS_SEARCH.search(line))
    return "\n".join(lines).strip()
