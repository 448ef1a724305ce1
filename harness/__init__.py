"""arena-harness: run an LLM agent many times, find out which runs were really better, keep the evidence.

    run = await harness.run(agent, ["Why is the sky blue?", "Why is it dark at night?"], judge_model="gpt-6.1-terra")
    best = await harness.best_of(agent, "Why is the sky blue?", n=8)

Importing this imports nothing else: the Agents SDK takes over a second, and comes in when it is first needed.
"""

_HOMES: dict[str, tuple[str, str]] = {}
"""The module of each public name, and the name that it has there: read from `__init__.pyi` when the first is needed."""

# Nothing is imported at the top: `python -m harness` comes here first, and the working folder may hold modules of a
# stranger's.


def __getattr__(name: str) -> object:
    """Import a public name when it is first asked for (PEP 562)."""
    import importlib  # noqa: PLC0415

    if name == "__version__":
        return importlib.import_module("importlib.metadata").version("arena-harness")
    names = __dir__()
    if name == "__all__":
        return names
    if name not in _HOMES:
        raise AttributeError(f"module 'harness' has no attribute {name!r}")
    module, there = _HOMES[name]
    return getattr(importlib.import_module(module), there)


def __dir__() -> list[str]:
    """Return the public names, for completion."""
    import ast  # noqa: PLC0415
    from pathlib import Path  # noqa: PLC0415

    if not _HOMES:
        stub = ast.parse(Path(f"{__file__}i").read_text("utf-8"))
        imports = [(line.module, each) for line in stub.body if isinstance(line, ast.ImportFrom) for each in line.names]
        _HOMES.update({str(each.asname): (str(module), each.name) for module, each in imports})
    return sorted([*_HOMES, "__version__"])
