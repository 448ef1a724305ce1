"""A fake endpoint that also has /files and /batches: what its batches bring back is scripted, the replies are usual."""

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from email.parser import BytesParser
from http.server import BaseHTTPRequestHandler
from itertools import count
from typing import Any

from tests.fake_endpoint import FakeEndpoint, Script, Seen

Lines = list[dict[str, Any]]
Fate = Callable[["FakeBatch", Lines], Lines]
"""Makes of all lines that would come back those that do; may set the batch's status."""


def whole(batch: "FakeBatch", lines: Lines) -> Lines:
    """Bring everything back, in another order."""
    return random.Random(batch.id).sample(lines, len(lines))


@dataclass
class FakeBatch:
    id: str
    file: str
    endpoint: str
    asked: Lines
    status: str = "in_progress"
    output: Lines = field(default_factory=list)
    errors: Lines = field(default_factory=list)

    @property
    def keys(self) -> list[str]:
        return [line["custom_id"] for line in self.asked]

    def shown(self) -> dict[str, Any]:
        over = self.status != "in_progress"
        counts = {"total": len(self.asked), "completed": len(self.output), "failed": len(self.errors)}
        return {
            "id": self.id,
            "object": "batch",
            "endpoint": self.endpoint,
            "input_file_id": self.file,
            "completion_window": "24h",
            "created_at": 0,
            "status": self.status,
            "request_counts": counts,
            "output_file_id": f"{self.id}-output" if over and self.output else None,
            "error_file_id": f"{self.id}-errors" if over and self.errors else None,
        }


class BatchEndpoint(FakeEndpoint):
    """The server. With `at_once` a batch is over when it is first looked at; else when `finish` is called."""

    def __init__(self, agent: Script | None = None, judge: Script | None = None) -> None:
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, FakeBatch] = {}
        self.looked_at: list[str] = []
        self.fate: Fate = whole
        self.at_once = False
        self.on_create: Callable[[FakeBatch], None] = lambda _: None
        self.on_upload: Callable[[str], None] = lambda _: None
        self.lists = True
        self._numbers = count(1)
        super().__init__(agent, judge)

    @property
    def asked(self) -> list[str]:
        """The keys that all batches asked for, in order."""
        return [key for batch in self.batches.values() for key in batch.keys]

    def finish(self) -> None:
        """Bring all batches to an end."""
        for batch in self.batches.values():
            if batch.status == "in_progress":
                batch.status = "completed"
                for line in self.fate(batch, [self._line(asked) for asked in batch.asked]):
                    (batch.output if (line.get("response") or {}).get("status_code") == 200 else batch.errors).append(
                        line
                    )

    def _line(self, asked: dict[str, Any]) -> dict[str, Any]:
        answer = self.answer(Seen(asked["url"], "batch", asked["body"]))
        status, body, _ = answer or (500, {"error": {"message": "no reply"}}, {})
        response = {"status_code": status, "request_id": "r", "body": body}
        return {"id": "l", "custom_id": asked["custom_id"], "response": response, "error": None}

    def get(self, path: str) -> tuple[int, bytes]:
        self.looked_at.append(path)
        path, _, _ = path.partition("?")
        parts = path.removeprefix("/v1/").split("/")
        if parts == ["batches"]:
            data = [batch.shown() for batch in self.batches.values()] if self.lists else []
            return 200, json.dumps({"object": "list", "data": data, "has_more": False}).encode()
        if parts[0] == "batches":
            if parts[1] not in self.batches:
                return 404, b'{"error": {"message": "no such batch"}}'
            if self.at_once:
                self.finish()
            return 200, json.dumps(self.batches[parts[1]].shown()).encode()
        name, kind = parts[1].rsplit("-", 1)
        lines = self.batches[name].output if kind == "output" else self.batches[name].errors
        return 200, "".join(json.dumps(line) + "\n" for line in lines).encode()

    def post(self, path: str, kind: str, raw: bytes) -> dict[str, Any]:
        if path == "/v1/files":
            message = BytesParser().parsebytes(b"content-type: " + kind.encode() + b"\r\n\r\n" + raw)
            (content,) = [part.get_payload(decode=True) for part in message.walk() if part.get_filename()]
            name = f"file-{next(self._numbers)}"
            self.files[name] = bytes(content)  # pyright: ignore[reportArgumentType]
            self.on_upload(name)
            return {
                "id": name,
                "object": "file",
                "bytes": len(raw),
                "created_at": 0,
                "filename": "f",
                "purpose": "batch",
            }
        body = json.loads(raw)
        file = body["input_file_id"]
        asked = [json.loads(line) for line in self.files[file].splitlines()]
        batch = FakeBatch(f"batch_{next(self._numbers)}", file, body["endpoint"], asked)
        self.batches[batch.id] = batch
        self.on_create(batch)
        return batch.shown()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        endpoint = self
        usual: Any = super()._handler()

        class Handler(usual, BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                if self.path not in {"/v1/files", "/v1/batches"}:
                    super().do_POST()
                    return
                raw = (
                    self.rfile.read(int(self.headers["content-length"]))
                    if "content-length" in self.headers
                    else self._chunks()
                )
                self._send(200, json.dumps(endpoint.post(self.path, self.headers["content-type"], raw)), {})

            def _chunks(self) -> bytes:
                data = b""
                while size := int(self.rfile.readline(), 16):
                    data += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
                return data

            def do_GET(self) -> None:
                if not self.path.startswith(("/v1/batches", "/v1/files")):
                    super().do_GET()
                    return
                status, data = endpoint.get(self.path)
                self._send(status, data.decode(), {})

        return Handler
