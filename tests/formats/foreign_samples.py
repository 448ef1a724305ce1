"""A small sample of each format of another program: two answers, if it can hold two, and what must come of them.

Checked by hand against the source of TRL 1.16, verifiers 0.1.14 (types.RolloutOutput) and 0.4.0 (v1/trace.py,
v1/episode.py; prime-rl writes these), NeMo-Gym (environments/*/data/example_rollouts.jsonl), LLaMA-Factory
(data/README.md), openai 3.1 (types/evals/runs, types/responses), evals 3.0.1 (record.py), promptfoo 0.121
(src/types/index.ts), inspect_ai 0.3.285 (log/_log.py), opentelemetry-semantic-conventions 0.66b2 (GenAI) and
openinference-semantic-conventions 0.1.42.
"""

import json
from typing import Any

from openai.types.responses import Response

USER = {"role": "user", "content": "Why is the sky blue?"}
GOOD, BAD = ({"role": "assistant", "content": text} for text in ("Rayleigh scattering.", "It is painted."))
LOOK = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"word": "sky"}'}}
SEEN = {"role": "tool", "tool_call_id": "c1", "content": "Short waves scatter."}
TOOL = {"type": "function", "name": "look", "parameters": {"type": "object"}}


def item(text: str) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "id": "m1", "status": "completed", "role": "assistant", "content": [part]}


RESPONSE: dict[str, Any] = {
    "id": "r1",
    "object": "response",
    "model": "m",
    "temperature": 0.7,
    "output": [
        {"type": "reasoning", "id": "t1", "summary": [{"type": "summary_text", "text": "I look."}]},
        {"type": "function_call", "id": "f1", "call_id": "c1", "name": "look", "arguments": '{"word": "sky"}'},
        {"type": "function_call_output", "call_id": "c1", "output": "Short waves scatter."},
        item("Rayleigh scattering."),
    ],
}
ASKED = {"input": [USER], "instructions": "Be brief.", "tools": [TOOL]}


def node(parent: int | None, message: dict[str, Any], ids: list[int], *, said: bool = False) -> dict[str, Any]:
    mask = [said and place > 0 for place in range(len(ids))]
    logprobs = [-0.5] * sum(mask)
    tokens = {"token_ids": ids, "mask": mask, "logprobs": logprobs}
    return {"parent": parent, "message": message, "sampled": said, **tokens}


TRACE: dict[str, Any] = {
    "version": 1,
    "id": "x1",
    "task": {"type": "Sky", "key": "sky", "data": {"answer": "Scattering."}},
    "agent": {"name": "agent"},
    "nodes": [
        node(None, USER, [1, 2]),
        node(
            0,
            {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "name": "look", "arguments": "{}"}]},
            [3, 4],
            said=True,
        ),
        node(1, SEEN, [5]),
        node(2, GOOD, [6, 7, 8], said=True),
    ],
    "rewards": {"right": {"score": 1.0, "weight": 0.5}, "brief": {"score": 1.0, "weight": 0.25}},
    "ok": True,
}
MATCH = {
    "run_id": "r",
    "event_id": 1,
    "sample_id": "sky.0",
    "type": "match",
    "data": {"correct": True, "expected": "S."},
}
SAMPLING = MATCH | {"event_id": 0, "type": "sampling", "data": {"prompt": [USER], "sampled": ["Rayleigh scattering."]}}


def attributes(**values: Any) -> list[dict[str, Any]]:
    return [{"key": key.replace("__", "."), "value": {"stringValue": value}} for key, value in values.items()]


def spans(*made: dict[str, Any]) -> dict[str, Any]:
    plain = [
        {"traceId": "a1", "spanId": f"{n}", "name": "chat", "startTimeUnixNano": f"{n}"} | span
        for n, span in enumerate(made)
    ]
    return {"resourceSpans": [{"scopeSpans": [{"spans": plain}]}]}


GENAI = attributes(
    gen_ai__request__model="m",
    gen_ai__system_instructions=json.dumps([{"type": "text", "content": "Be brief."}]),
    gen_ai__input__messages=json.dumps(
        [
            {"role": "user", "parts": [{"type": "text", "content": USER["content"]}]},
            {
                "role": "assistant",
                "parts": [{"type": "tool_call", "id": "c1", "name": "look", "arguments": {"word": "sky"}}],
            },
            {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "Short waves scatter."}]},
        ]
    ),
    gen_ai__output__messages=json.dumps(
        [{"role": "assistant", "parts": [{"type": "text", "content": GOOD["content"]}], "finish_reason": "stop"}]
    ),
)
INFERENCE = attributes(
    openinference__span__kind="LLM",
    llm__model_name="m",
    llm__input_messages__0__message__role="user",
    llm__input_messages__0__message__content=USER["content"],
    llm__input_messages__1__message__role="assistant",
    llm__input_messages__1__message__tool_calls__0__tool_call__id="c1",
    llm__input_messages__1__message__tool_calls__0__tool_call__function__name="look",
    llm__input_messages__1__message__tool_calls__0__tool_call__function__arguments='{"word": "sky"}',
    llm__input_messages__2__message__role="tool",
    llm__input_messages__2__message__tool_call_id="c1",
    llm__input_messages__2__message__content="Short waves scatter.",
    llm__output_messages__0__message__role="assistant",
    llm__output_messages__0__message__contents__0__message_content__type="text",
    llm__output_messages__0__message__contents__0__message_content__text=GOOD["content"],
)
ROW = {"example_id": 7, "prompt": [USER], "completion": [GOOD], "reward": 0.75, "answer": "Scattering.", "task": "sky"}
SAMPLED: dict[str, Any] = {
    "error": {"code": "", "message": ""},
    "max_completion_tokens": 99,
    "seed": 1,
    "top_p": 1.0,
    "usage": {"cached_tokens": 0, "completion_tokens": 1, "prompt_tokens": 2, "total_tokens": 3},
}
EVALS_ITEM = {
    "object": "eval.run.output_item",
    "id": "o1",
    "datasource_item_id": 3,
    "datasource_item": {"word": "sky"},
    "results": [{"name": "right", "passed": True, "score": 1.0}],
    "sample": {"input": [USER], "output": [GOOD], "model": "m", "temperature": 1.0, "finish_reason": "stop"} | SAMPLED,
}
PROMPTFOO = {
    "evalId": "e1",
    "results": {
        "version": 3,
        "stats": {"successes": 1, "failures": 1},
        "results": [
            {
                "id": f"p{n}",
                "testIdx": 0,
                "promptIdx": n,
                "prompt": {"raw": json.dumps([USER]), "label": "l"},
                "vars": {"word": "sky"},
                "response": {"output": said["content"]},
                "provider": {"id": "m"},
                "score": 1 - n,
                "success": not n,
            }
            for n, said in enumerate((GOOD, BAD))
        ],
    },
}
INSPECT = {
    "version": 2,
    "status": "success",
    "eval": {"task": "sky", "model": "m", "created": "2026-01-01T00:00:00+00:00"},
    "samples": [
        {
            "id": 1,
            "epoch": epoch,
            "input": USER["content"],
            "target": "Scattering.",
            "messages": [
                USER,
                {
                    "role": "assistant",
                    "content": [{"type": "reasoning", "reasoning": "I look."}],
                    "tool_calls": [{"id": "c1", "function": "look", "arguments": {"word": "sky"}}],
                },
                SEEN | {"function": "look"},
                {"role": "assistant", "content": "attachment://h1"},
            ],
            "output": {"model": "m", "choices": []},
            "scores": {"match": {"value": grade}},
            "attachments": {"h1": said["content"]},
        }
        for epoch, (grade, said) in enumerate((("C", GOOD), ("I", BAD)), 1)
    ],
}
SHAREGPT = {
    "system": "Be brief.",
    "conversations": [
        {"from": "human", "value": USER["content"]},
        {"from": "function_call", "value": '{"name": "look", "arguments": {"word": "sky"}}'},
        {"from": "observation", "value": "Short waves scatter."},
        {"from": "gpt", "value": "Rayleigh scattering."},
    ],
    "tools": json.dumps([TOOL]),
}
ALPACA = {"instruction": "Why is the sky", "input": "blue?", "output": "Rayleigh scattering."}
TWO = ["Rayleigh scattering.", "It is painted."]
WITH_TOOLS: dict[str, Any] = {
    "completion": [{"role": "assistant", "content": None, "tool_calls": [LOOK]}, SEEN, GOOD],
    "tools": [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}],
}
TOKENS = {"prompt_token_ids": [1, 2], "generation_token_ids": [3], "generation_log_probs": [-0.5]}
HUMAN = [{"from": "human", "value": USER["content"]}]
FAILED = {
    "results": {
        "stats": {"successes": 0, "failures": 0, "errors": 1},
        "results": [{"testIdx": 0, "prompt": {"raw": USER["content"]}, "error": "429", "score": 0, "success": False}],
    }
}
CLIENTS = Response.model_validate(
    {"created_at": 0, "parallel_tool_calls": True, "tool_choice": "auto", "tools": [TOOL | {"strict": True}]}
    | RESPONSE
    | {"output": [item("Rayleigh scattering.")]}
).model_dump(mode="json")
"""What the client writes of a response, whose fields that say nothing are null."""
ONE: tuple[list[str], list[float | None], list[str | None]] = (["Rayleigh scattering."], [None], [None])
Sample = tuple[str, list[Any], list[str], list[float | None], list[str | None]]
SAMPLES: dict[str, Sample] = {
    "kto": (
        "kto",
        [{"prompt": [USER], "completion": [said], "label": said is GOOD} for said in (GOOD, BAD)],
        TWO,
        [1, 0],
        [None] * 2,
    ),
    "kto text": (
        "kto",
        [{"prompt": "Why is the sky blue?", "completion": "It is painted.", "label": False}],
        TWO[1:],
        [0],
        [None],
    ),
    "prompt-completion": ("prompt-completion", [{"prompt": [USER], "completion": [GOOD]}], TWO[:1], [None], [None]),
    "verifiers": ("verifiers", [ROW, ROW | {"completion": [BAD], "reward": 0.25}], TWO, [0.75, 0.25], ["sky 7"] * 2),
    "verifiers failed": (
        "verifiers",
        [ROW | {"completion": None, "reward": 0.0, "error": {"error": "Timeout"}}],
        [""],
        [0],
        ["sky 7"],
    ),
    "verifiers trace": ("verifiers", [TRACE], TWO[:1], [0.75], ["sky"]),
    "verifiers episode": (
        "verifiers",
        [{"id": "e", "task": {"key": "sky"}, "traces": [TRACE, TRACE]}],
        TWO[:1] * 2,
        [0.75] * 2,
        ["sky"] * 2,
    ),
    "nemo-gym": (
        "nemo-gym",
        [{"responses_create_params": ASKED, "response": RESPONSE, "reward": 0.5, "_ng_task_index": 4}],
        TWO[:1],
        [0.5],
        ["4"],
    ),
    "sharegpt": ("sharegpt", [SHAREGPT], TWO[:1], [None], [None]),
    "alpaca": ("alpaca", [ALPACA], TWO[:1], [None], [None]),
    "evals": ("openai-evals", [EVALS_ITEM, EVALS_ITEM], TWO[:1] * 2, [1, 1], ["3", "3"]),
    "evals page": ("openai-evals", [{"object": "list", "data": [EVALS_ITEM], "has_more": False}], TWO[:1], [1], ["3"]),
    "evals log": (
        "openai-evals",
        [{"spec": {"base_eval": "match", "run_id": "r"}}, SAMPLING, MATCH, {"final_report": {"accuracy": 1.0}}],
        TWO[:1],
        [1],
        ["sky.0"],
    ),
    "promptfoo": ("promptfoo", [PROMPTFOO], TWO, [1, 0], ["0", "0"]),
    "inspect": ("inspect", [INSPECT], TWO, [1, 0], ["1", "1"]),
    "responses": ("responses", [{"input": USER["content"], "output": RESPONSE["output"]}], TWO[:1], [None], [None]),
    "responses pair": ("responses", [{"request": ASKED, "response": RESPONSE}], TWO[:1], [None], [None]),
    "otlp genai": (
        "otlp",
        [spans({"attributes": GENAI})],
        TWO[:1],
        [None],
        [None],
    ),
    "otlp openinference": ("otlp", [spans({"attributes": INFERENCE})], TWO[:1], [None], [None]),
    "evals with two scores": (
        "openai-evals",
        [EVALS_ITEM | {"results": [{"name": name, "score": 1.0} for name in ("right", "brief")]}],
        TWO[:1],
        [None],
        ["3"],
    ),
    "kto with tools": ("kto", [{"prompt": [USER], **WITH_TOOLS, "label": True}], TWO[:1], [1], [None]),
    "prompt-completion text": ("prompt-completion", [{"prompt": USER["content"], "completion": TWO[0]}], *ONE),
    "prompt-completion with tools": ("prompt-completion", [{"prompt": [USER], **WITH_TOOLS}], *ONE),
    "verifiers with tools": (
        "verifiers",
        [ROW | {"completion": WITH_TOOLS["completion"], "tool_defs": [{"name": "look", "parameters": {}}]}],
        TWO[:1],
        [0.75],
        ["sky 7"],
    ),
    "verifiers trace of a failure": (
        "verifiers",
        [TRACE | {"ok": False, "errors": [{"type": "Timeout"}], "nodes": TRACE["nodes"][:3], "rewards": {}}],
        [""],
        [None],
        ["sky"],
    ),
    "nemo-gym for training": (
        "nemo-gym",
        [
            {
                "responses_create_params": {"input": USER["content"]},
                "response": RESPONSE | {"output": [item("Rayleigh scattering.") | TOKENS]},
                "reward": 1.0,
                "_ng_task_index": 0,
                "_ng_rollout_index": 1,
            }
        ],
        TWO[:1],
        [1],
        ["0"],
    ),
    "sharegpt dump": ("sharegpt", [{"id": "a_0", "conversations": [*HUMAN, {"from": "gpt", "value": TWO[0]}]}], *ONE),
    "alpaca of Stanford": (
        "alpaca",
        [{"instruction": "Why is the sky\nblue?", "input": "", "output": TWO[0], "text": "Below is an instruction."}],
        *ONE,
    ),
    "promptfoo failed": ("promptfoo", [FAILED], [""], [0], ["0"]),
    "responses of openai's client": ("responses", [{"request": ASKED, "response": CLIENTS}], *ONE),
}
"""By name: format, the objects of a file, and the answer, the reward and the query's id of each rollout."""
