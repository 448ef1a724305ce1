"""`--config` files: YAML with a setting on each line, read within bounds."""

from collections import Counter
from pathlib import Path
from typing import Any, cast

import yaml

from harness.core.errors import UsageError, on_a_line, quoted
from harness.core.user_files import read_text

_LARGEST = 100_000
_MOST_MERGED = 1_000


class _Loader(yaml.SafeLoader):
    """Safe against `<<`: merges of merges of merges can stand for more keys than memory holds."""

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        super().flatten_mapping(node)
        if len(cast("list[Any]", node.value)) > _MOST_MERGED:
            raise yaml.constructor.ConstructorError(None, None, f"more than {_MOST_MERGED} keys", node.start_mark)


def read_config(path: Path) -> dict[str, Any]:
    """Return what a config file says, by the names of settings. Raises UsageError for one that cannot be used."""
    name = f"--config {on_a_line(path)}"
    text = read_text(path, name, most=_LARGEST)
    try:
        loader: Any = _Loader(text)
        node = loader.get_single_node()
        pairs = [*node.value] if node and node.id == "mapping" else []  # `<<` adds to it
        loaded: Any = (loader.construct_document(node) if node else None) or {}
    except RecursionError:
        raise UsageError(f"{name} is not YAML that can be read: nested too deep") from None
    except (yaml.YAMLError, ValueError, OverflowError) as exc:  # ValueError: a date like 2026-13-45
        fault = on_a_line(str(exc).partition("\n")[0])
        if isinstance(exc, yaml.MarkedYAMLError) and exc.problem and exc.problem_mark:
            fault = f"{on_a_line(exc.problem)}, line {exc.problem_mark.line + 1}"
        raise UsageError(f"{name} is not YAML: {fault}") from None
    if not isinstance(loaded, dict):
        raise UsageError(f"{name}: expected `setting: value` lines, found a {type(loaded).__name__}")
    settings = cast("dict[Any, Any]", loaded)
    if strange := [key for key in settings if not isinstance(key, str)]:
        raise UsageError(f"{name}: {quoted(strange[0])} is no name of a setting")
    keys = [str(key.value).replace("-", "_") for key, _ in pairs]
    if twice := [key for key, times in Counter(keys).items() if times > 1 and key != "<<"]:
        raise UsageError(f"{name}: {quoted(twice[0])} is set twice")
    return {key.replace("-", "_"): value for key, value in settings.items()}
