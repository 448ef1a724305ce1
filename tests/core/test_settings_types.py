"""harness.core.settings_types fits `Settings`. After a change: `python -m tests.cli.test_settings_table`."""

import textwrap
from collections.abc import Iterable
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from harness.core.setting import Setting
from harness.core.settings import OF_JUDGING, OF_ROLLING_OUT, SETTINGS, VARIED

PAGE = Path(__file__).resolve().parents[2] / "harness" / "core" / "settings_types.py"
MARK = "# Generated below: python -m tests.cli.test_settings_table\n"
PARAMETERS = ("n", "judge")
"""Settings whose names some functions use for a parameter of their own."""
OF_RESUME = (
    *("rubric", "base_url", "judge_base_url", "max_cost", "prices", "price_by_name", "instructions", "approve"),
    *("concurrency", "judge_concurrency", "max_unjudged", "engine", "ray_address", "ship", "isolate", "memory"),
)
"""Settings of a run that is resumed which today's user may name."""


OF_COMPARE = (*OF_JUDGING, *OF_ROLLING_OUT, *VARIED, "runs_dir")


def written(type_: Any) -> str:
    """Return the type that a Python caller may give, as it is written down."""
    if get_origin(type_) is Literal:
        words = ", ".join(f'"{word}"' for word in get_args(type_))
        return f"Literal[{words}]"
    if get_origin(type_) is tuple:
        return "Sequence[str]"
    names = {Path: "str | Path", NoneType: "None"}
    return names.get(type_) or type_.__name__


def field(setting: Setting) -> str:
    alternatives = () if get_origin(setting.type) in {tuple, Literal} else get_args(setting.type)
    words = [written(type_) for type_ in alternatives or (setting.type,)] + [setting.also] * bool(setting.also)
    types = " | ".join(sorted(words, key="None".__eq__))
    text = f'"""{setting.in_python}"""'
    lines = textwrap.fill(text, 114, break_on_hyphens=False)
    return f"    {setting.name}: {types}\n{textwrap.indent(lines, '    ')}\n"


def class_of(name: str, base: str, meaning: str, settings: Iterable[str]) -> str:
    fields = "".join(field(SETTINGS[each]) for each in settings)
    return f'\n\nclass {name}({base}, total=False):\n    """{meaning}"""\n\n{fields}'


def classes() -> str:
    common = [name for name in SETTINGS if name not in PARAMETERS]
    both = [name for name in SETTINGS if name in OF_RESUME and name in OF_COMPARE]
    resume = [name for name in OF_RESUME if name not in both]
    compared = [name for name in common if name in OF_COMPARE and name not in both]
    rest = [name for name in common if name not in {*OF_RESUME, *OF_COMPARE}]
    return (
        class_of("LaterSettings", "TypedDict", "What may be named for a comparison, and when a run goes on.", both)
        + class_of("ResumeSettings", "LaterSettings", "The settings that may be named when a run goes on.", resume)
        + class_of("ComparedSettings", "LaterSettings", "Every setting of a comparison but `n`.", compared)
        + class_of("CompareSettings", "ComparedSettings", "The settings of a comparison.", ["n"])
        + class_of("CommonSettings", "ComparedSettings, ResumeSettings", "Every setting but `n` and `judge`.", rest)
        + class_of("RunSettings", "CommonSettings", "Every setting of a run.", PARAMETERS)
    )


def renew_types() -> None:
    """Write the classes anew."""
    PAGE.write_text(PAGE.read_text("utf-8").partition(MARK)[0] + MARK + classes(), "utf-8")


def test_the_types_of_the_settings_are_those_that_the_declarations_make():
    assert PAGE.read_text("utf-8").partition(MARK)[2] == classes()
