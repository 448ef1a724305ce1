"""Doors that open as far as somebody comes in: a room's modules are imported when their names are first asked for.

`ls` and `show` read an archive and print a table. What else the same rooms hold (writers, the page, numpy's fits) takes
longer to import than those commands take.
"""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(room: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Return `__getattr__` for the package `room` (PEP 562).

    `modules` names, for each module of the room, the names that the door gives out, between spaces. A door defines its
    `__getattr__` where no type checker looks: such a checker reads the imports under TYPE_CHECKING, and would believe
    in any name otherwise.
    """
    homes = {name: f"{room}.{module}" for module, names in modules.items() for name in names.split()}

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        value = getattr(import_module(homes[name]), name)
        setattr(sys.modules[room], name, value)  # asked for once
        return value

    return get
