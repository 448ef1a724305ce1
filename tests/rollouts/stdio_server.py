"""An MCP server over stdio that needs the standard library alone: mcp takes a second to import, in each process anew.

One of its tools counts its calls, so that shared state shows as a number above one; the others fail in every way.
"""

import itertools
import json
import os
import sys
import time
from typing import Any

calls = itertools.count(1)
NAMES = ("count", "works", "raises", "refuses", "hangs", "dies")


def told(text: str, *, failed: bool = False) -> dict[str, Any]:
    content = {"content": [{"type": "text", "text": text}], "isError": failed}
    return content if failed else content | {"structuredContent": {"result": text}}


def called(name: str) -> dict[str, Any]:
    match name:
        case "count":
            return told(f"call {next(calls)}")
        case "raises":
            return told("Error executing tool raises", failed=True)
        case "hangs":
            time.sleep(60)
        case "dies":
            os._exit(1)
        case _:
            pass
    return told("fine")


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    schema = {"inputSchema": {"type": "object", "properties": {}}}
    match method, params.get("name"):
        case "initialize", _:
            about = {"capabilities": {"tools": {}}, "serverInfo": {"name": "stdio", "version": "1"}}
            return {"result": about | {"protocolVersion": params["protocolVersion"]}}
        case "tools/list", _:
            return {"result": {"tools": [{"name": name} | schema for name in NAMES]}}
        case "tools/call", "refuses":
            return {"error": {"code": -32602, "message": "not today"}}
        case "tools/call", str(name):
            return {"result": called(name)}
        case _:
            return {"error": {"code": -32601, "message": "no such method"}}


if __name__ == "__main__":
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" in asked:
            reply = {"jsonrpc": "2.0", "id": asked["id"]} | answer(asked["method"], asked.get("params") or {})
            sys.stdout.write(json.dumps(reply) + "\n")
            sys.stdout.flush()
