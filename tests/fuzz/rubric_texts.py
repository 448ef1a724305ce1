"""Hostile rubric files: front matter and bodies made of pieces, each wrong, large, deep or sly in its own way."""

import random

from tests.fuzz.words import WORDS

FRONT = (
    "name: own",
    "version: 2",
    "path_weight: 0.4",
    "answer_weight: 0.6",
    "max_words: 300",
    "dimensions:",
    "  - {key: depth, title: Depth, block: path, description: It goes deep.}",
    "  - {key: wit, title: Wit, block: answer, description: It is funny.}",
    "caps: {too_long: {wit: 5}}",
)
_SLY_FRONT = (
    "body: x",
    "source: x",
    "instructions: x",
    "left_out: [wit]",
    "name: !!python/object/apply:os.system ['touch ../outside/made']",
    "x: !!python/name:os.system",
    "name: !!binary aGk=",
    "x: &x [*x]",
    "x: &a [a, a]\ny: &b [*a, *a, *a]\nz: [*b, *b, *b]",
    "name: {<<: {a: 1}}",
    "version: 0x" + "f" * 300,
    "version: " + "9" * 5000,
    "version: .nan",
    "version: 2026-13-45",
    "version: 1:2:3:4",
    "path_weight: 1e-999999",
    "path_weight: 0.4000000000000000000000000000001",
    "answer_weight: '0.6'",
    "max_words: true",
    "max_words: -9223372036854775808",
    "caps: {leaked_reasoning: {1: 2}, too_long: [wit]}",
    "caps: {forged_fence: {depth: 11}}",
    "dimensions: {a: 1}",
    "? [a, b]\n: c",
    "- a",
    "---",
    "...",
    "%YAML 9.9",
    'name: "\\0\\ud800\\e]0;title\\a"',
    '"\\e[31mred\\e[0m": 1',
    "name: \u202egnp.exe",
    "x: " + "[" * 50 + "]" * 50,
    "x: {" + "a: {" * 40,
    "\t",
    "name: x\x00y",
    "name: x\ud800y",
    "name: \x1b]0;title\x07",
    "y" * 900 + ": 1",
)
_BODIES = (
    "Mark them.",
    "{% for d in dimensions %}{{ loop.index }} {{ d.title }}\n{% endfor %}",
    "{{ dimensions|selectattr('block', 'eq', 'path')|map(attribute='key')|join(', ') }}",
    "{% if max_words %}{{ max_words }}{% endif %}{% set x = name|upper %}{{ x }}",
    "{{ dimensions[0].parse_raw(\"cposix\\nsystem\\n(S'touch ../outside/made'\\ntR.\", proto='pickle') }}",
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ ''['__cla' ~ 'ss__'] }}",
    "{{ dimensions|map(attribute='__class__.__init__.__globals__')|list }}",
    "{{ dimensions|map('attr', '__class__')|list }}",
    "{{ lipsum.__globals__.os.system('touch ../outside/made') }}",
    "{{ self._TemplateReference__context }}",
    "{{ loop }}",
    "{% for d in dimensions recursive %}{{ loop(dimensions) }}{% endfor %}",
    "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "{% include '/etc/passwd' %}",
    "{% import 'os' as os %}",
    "{% extends '../outside/canary' %}",
    "{% set x.y = 1 %}",
    "{{ x",
    "{% end",
    "{#",
    "{{ 1 / 0 }}",
    "{{ 1 // 0.0 }}",
    "{{ -'a' }}",
    "{{ [] < {} }}",
    "{{ {}[[]] }}",
    "{{ name[::0] }}",
    "{{ '\\ud800' }}",
    "{{ '\\x1b]0;title\\x07\\x00' }}",
    "{{ 'a' % 1 }}",
    "{{ 1e308 * 1e308 }}",
    "{{ 9999999999 * 9999999999 * 9999999999 }}",
    "{{ path_weight / 3 }}",
    "{{ name|round }}",
    "{{ 1|sort|first|max }}",
    "{{ 'x'|int(base=99) }}",
    "{{ dimensions|sum }}",
    "{{ dimensions|join(dimensions) }}",
    "{{ missing|default }}",
    "{{ 1 is divisibleby 0 }}",
    "{{ 1 is in 2 }}",
    "{{ 'a'|center(2000000000) }}",
    "{{ '%2000000000d'|format(1) }}",
    "{{ 2 ** 2 ** 99 }}",
    "{{ " + "(" * 300 + "1" + ")" * 300 + " }}",
    "{{ " + "not " * 300 + "1 }}",
    "{% if 1 %}" * 25 + "{% endif %}" * 25,
    "{{ " + "z" * 3000 + " }}",
    "\x00",
    "\ud800",
    "\u2028\u2029\x85\x0c",
    "\r\n\r",
    "---\nname: again\n---",
    "{{ 'a' ~ " * 50,
)
_BOMBS = (
    "{% set s = '" + "a" * 1000 + "' %}" + "{% for a in s %}" * 3 + "{% endfor %}" * 3,
    "{% set s = '" + "a" * 1000 + "' %}" + "{% for a in s %}" * 3 + "x" + "{% endfor %}" * 3,
    "{% set x = 'aaaaaaaa' %}" + "{% set x = x ~ x ~ x ~ x %}" * 20 + "{{ x }}",
    "{% set x = 'aaaaaaaa' %}" + "{% set x = x|replace('a', 'aaaaaaaa') %}" * 20 + "{{ x }}",
    "{{ 1|round(1000000000, 'ceil') }}",
    "{{ " + "-" * 100_000 + "1 }}",
    "{% if 1 %}" * 20_000 + "{% endif %}" * 20_000,
    "x" * 1_100_000,
    "{{ '" + "y" * 400_000 + "'|replace('y', 'yyy') }}",
)
_FRONT_BOMBS = (
    "x: " + "[" * 300_000,
    "x: " + "{a: " * 100_000,
    "\n".join(["a0: &a0 [x, x]", *(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 30))]),
    "\n".join(f"k{i}: {i}" for i in range(20_000)),
)


def rubric_text(rng: random.Random, *, bombs: bool) -> str:
    """Return a rubric's text with something wrong in it, or nothing; `bombs` take time and memory to read."""
    front: list[str] = [*FRONT]
    for _ in range(rng.choice((0, 0, 1, 2, 4))):
        _change(rng, front)
    if bombs and rng.random() < 0.1:
        front.insert(rng.randrange(len(front) + 1), rng.choice(_FRONT_BOMBS))
    body = [rng.choice(_BODIES) for _ in range(rng.choice((0, 1, 1, 2, 5)))]
    if bombs and rng.random() < 0.15:
        body.append(rng.choice(_BOMBS))
    parts = ["---", *front, "---", *body]
    if rng.random() < 0.15:
        parts.remove("---")
    text = "\n".join(parts) + "\n"
    return text[: rng.randrange(len(text))] if rng.random() < 0.1 else text


def _change(rng: random.Random, front: list[str]) -> None:
    """Take a line away, put one in, or put a hostile word in the place of a value."""
    at = rng.randrange(len(front)) if front else 0
    how = rng.random()
    if how < 0.2 and front:
        del front[at]
    elif how < 0.7 or not front:
        front.insert(at, rng.choice(_SLY_FRONT))
    else:
        key, colon, _ = front[at].partition(": ")
        front[at] = f"{key}{colon}{rng.choice(WORDS)}"
