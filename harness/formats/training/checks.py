"""What the rules of all formats check with: values of a known kind, keys that are not known, tools that are offered."""

import math
from collections.abc import Container, Iterator, Mapping
from typing import Any, cast


def fields_of(value: Any) -> Mapping[str, Any]:
    """Return an object's members; none of what is no object."""
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def list_of(value: Any) -> list[Any]:
    """Return a list, or what JSON makes one; an empty one for what is none."""
    return list(cast("list[Any]", value)) if isinstance(value, list | tuple) else []


def is_number(value: Any) -> bool:
    """Return whether a value is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def other_keys(fields: Mapping[str, Any], keys: Container[str], where: str) -> Iterator[str]:
    """Yield a fault for keys that are not among `keys`."""
    if strange := sorted(key for key in fields if key not in keys):
        yield f"{where} has other keys: {', '.join(strange)}"


def faults_of_tools(fields: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with the tools that a line offers."""
    if not isinstance(fields.get("tools", []), list):
        yield "tools is no list"
    for place, tool in enumerate(map(fields_of, list_of(fields.get("tools")))):
        if tool.get("type") != "function" or not isinstance(fields_of(tool.get("function")).get("name"), str):
            yield f"tools[{place}] is no function"
