"""Results of evaluation programs as chats: OpenAI's Evals, promptfoo, Inspect, and traces of OpenTelemetry.

Held against openai 3.1 (eval.run.output_item), evals 3.0.1 (record.py), promptfoo 0.121 (types/index.ts), inspect_ai
0.3.285 (log/_log.py). One score of a sample is its reward; several stay in the metadata, each under its name.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import JsonValue

from harness.core.errors import quoted
from harness.formats.foreign_chats import ForeignChat, as_message, left_over, make_chat, talk_messages
from harness.formats.json_values import JsonObject, number_in, object_in, objects_in, parse_json, text_in
from harness.formats.spans import SpannedCall, calls_of


def _only(scores: Sequence[float | None]) -> float | None:
    """Return the one score that there is: several stay in the metadata, each under its name."""
    return scores[0] if len(scores) == 1 else None


def read_evals(row: JsonObject) -> Iterator[ForeignChat]:
    """Read output items of the platform, or the log of the package `evals`: a sample's events."""
    events: defaultdict[str, list[JsonObject]] = defaultdict(list)
    about: dict[str, JsonValue] = {}
    for line in objects_in(row, "lines"):
        for item in objects_in(line, "data") if line.get("object") == "list" else [line]:
            if item.get("object") == "eval.run.output_item":
                yield _evals_item(item, left_over(line, "object data") if item is not line else {})
            elif item.get("sample_id"):
                events[str(item["sample_id"])].append(item)
            else:
                about |= item
    for name, of_sample in events.items():
        sampling = [event for event in of_sample if event.get("type") == "sampling"]
        if not sampling:
            raise ValueError(f"sample {quoted(name)} lacks an event of the type 'sampling'")
        said = object_in(sampling[-1], "data")
        matches = [object_in(event, "data") for event in of_sample if event.get("type") == "match"]
        sampled = said.get("sampled")
        reply = sampled[0] if isinstance(sampled, list) and len(sampled) == 1 else sampled
        messages = [*talk_messages(said.get("prompt"), "prompt", "user"), *talk_messages(reply, "sampled", "assistant")]
        others: list[JsonValue] = [dict(event) for event in of_sample if event is not sampling[-1]]
        reward = _only([float(bool(match.get("correct"))) for match in matches])
        yield make_chat(
            {
                "events": others,
                "event": left_over(sampling[-1], "data"),
                "log": about,
                **left_over(said, "prompt sampled"),
            },
            "",
            messages,
            query_id=name,
            reward=reward,
            reference=text_in(matches[0], "expected") if matches else None,
            model=said.get("model"),
        )


def _evals_item(item: JsonObject, page: Mapping[str, JsonValue]) -> ForeignChat:
    sample, results = object_in(item, "sample"), objects_in(item, "results")
    asked, said = objects_in(sample, "input"), objects_in(sample, "output")
    kept = left_over(sample, "input output model temperature")
    beside: JsonObject = {**left_over(item, "id object datasource_item_id sample"), "sample": kept, "page": dict(page)}
    error = object_in(sample, "error")
    return make_chat(
        beside,
        "",
        [*({**as_message(m), "weight": 0} for m in asked), *map(as_message, said)],
        id=item.get("id"),
        query_id=text_in(item, "datasource_item_id"),
        reward=_only([number_in(result, "score") for result in results]),
        model=sample.get("model"),
        temperature=sample.get("temperature"),
        failed=error.get("message") or error.get("code"),
    )


def read_promptfoo(row: JsonObject) -> Iterator[ForeignChat]:
    """Read results: a chat for each answer to a test, the answers of all prompts and providers to it a group."""
    summary = object_in(row, "results") if isinstance(row.get("results"), dict) else row
    about = {**left_over(row, "results"), "summary": left_over(summary, "results table")}
    for result in objects_in(summary, "results"):
        prompt, response = object_in(result, "prompt").get("raw"), object_in(result, "response")
        asked: JsonValue = prompt
        if isinstance(prompt, str) and prompt.lstrip().startswith("[{"):
            asked = parse_json(prompt)
        output, provider = response.get("output"), object_in(result, "provider")
        text = output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)
        said = [] if output is None else [{"role": "assistant", "content": text}]
        beside: dict[str, Any] = {**left_over(result, "id prompt response error score"), "run": about}
        beside |= {
            "prompt": left_over(object_in(result, "prompt"), "raw"),
            "response": left_over(response, "output error"),
        }
        yield make_chat(
            beside,
            "",
            [*talk_messages(asked, "prompt.raw", "user"), *said],
            id=result.get("id"),
            query_id=text_in(result, "testIdx"),
            reward=number_in(result, "score"),
            model=provider.get("id"),
            failed=(response.get("error") or result.get("error")) if output is None else None,
        )


_GRADES: Mapping[JsonValue, float] = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
"""As inspect_ai's `value_to_float` reads them."""


def read_inspect(row: JsonObject) -> Iterator[ForeignChat]:
    """Read a log: a chat for each sample and epoch, the epochs of a sample a group."""
    about = object_in(row, "eval")
    if not row.get("samples"):
        raise ValueError("it lacks samples: the log was written without them, or only its header was")
    for sample in objects_in(row, "samples"):
        held, unplaced = json.dumps(left_over(sample, "attachments")), list[str]()
        for name, text in object_in(sample, "attachments").items():  # a long text stands there under its hash
            if (mark := f"attachment://{name}") not in held:
                unplaced.append(f"the attachment {quoted(name)}")
            held = held.replace(mark, json.dumps(text)[1:-1])
        sample: JsonObject = json.loads(held)  # noqa: PLW2901 - the same sample
        messages, output = [*map(as_message, objects_in(sample, "messages"))], object_in(sample, "output")
        if not messages:
            messages = [*talk_messages(sample.get("input"), "input", "user")]
            messages += [as_message(object_in(choice, "message")) for choice in objects_in(output, "choices")[:1]]
        values = [object_in({"": score}, "").get("value") for score in object_in(sample, "scores").values()]
        graded = [_GRADES.get(value, value) for value in values if isinstance(value, str | bool | int | float)]
        numbers = [float(value) for value in graded if isinstance(value, bool | int | float)]
        target = sample.get("target")
        yield make_chat(
            {**left_over(sample, "id messages input"), "run": left_over(row, "samples")},
            "",
            messages,
            unplaced=unplaced,
            id=sample.get("uuid"),
            query_id=text_in(sample, "id"),
            reward=_only(numbers) if len(numbers) == len(values) else None,
            reference=target if isinstance(target, str) else json.dumps(target) if target else None,
            model=output.get("model") or about.get("model"),
            failed=object_in(sample, "error").get("message"),
        )


def read_otlp(row: JsonObject) -> Iterator[ForeignChat]:
    """Yield a chat for each trace: that of its last model call."""
    traces: dict[str, list[SpannedCall]] = {}
    other = 0
    for line in objects_in(row, "lines"):
        calls, passed = calls_of(line)
        other += passed
        for call in calls:
            traces.setdefault(call.trace, []).append(call)
    if not traces:
        raise ValueError("its spans lack the messages of model calls: turn the capture of message content on")
    for trace, calls in traces.items():
        last = max(calls, key=lambda call: call.started)
        kept = [*last.asked, *last.said]
        unplaced = [name for call in calls for name in call.unplaced]
        unplaced += ["a span that is no model call"] * bool(other)
        unplaced += [
            "a model call whose messages its trace's last call does not hold"
            for call in calls
            if call is not last and not all(m in kept for m in (*call.asked, *call.said))
        ]
        yield make_chat(
            last.attributes,
            "",
            [*({**m, "weight": 0} for m in last.asked), *last.said],
            unplaced=unplaced,
            id=trace,
            tools=list(last.tools),
            model=last.model,
            temperature=last.temperature,
        )


def is_evals(row: JsonObject) -> bool:
    """Return whether an object is an output item, a list of them, or a line of a log of `evals`."""
    listed = row.get("data") if row.get("object") == "list" else [row]
    first = listed[0] if isinstance(listed, list) and listed else None
    is_item = isinstance(first, dict) and first.get("object") == "eval.run.output_item"
    spec = row.get("spec")
    is_log = {"run_id", "event_id", "type"} <= row.keys() or (isinstance(spec, dict) and "base_eval" in spec)
    return is_item or is_log


def is_promptfoo(row: JsonObject) -> bool:
    """Return whether an object is what `promptfoo eval -o FILE.json` writes."""
    results = row.get("results")
    return isinstance(results, dict) and isinstance(results.get("results"), list) and "stats" in results
