"""A rubric is text that people pass on: what its template and its front matter try, and what comes of that."""

import os
from pathlib import Path

import pytest

from harness.core.errors import UsageError
from harness.judging.prompt import fixed_message
from harness.judging.rubric import Rubric, load_rubric, read_by
from harness.rubric_text.bounded import TRUSTED
from tests.judging.replies import rubric_of
from tests.judging.test_rubric import FRONT, a_text

# ---- What the language does not have: refused before anything runs


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("{{ dimensions[0].parse_raw(marker, proto='pickle') }}", "uses a call"),
        ("{{ ''.__class__ }}", "asks for '__class__'"),
        ("{{ ''['__class__'] }}", "asks for '__class__'"),
        ("{{ dimensions[0].__init__.__globals__ }}", "asks for '__"),
        ("{{ 'x'|attr('__class__') }}", "uses the filter 'attr'"),
        ("{{ 'a'|center(2000000000) }}", "uses the filter 'center'"),
        ("{{ '%1000000000d'|format(1) }}", "uses the filter 'format'"),
        ("{{ 'a'|indent(1000000000) }}", "uses the filter 'indent'"),
        ("{{ dimensions|pprint }}", "uses the filter 'pprint'"),
        ("{{ {'a': 1}|xmlattr }}", "uses the filter 'xmlattr'"),
        ("{{ 1 is filter }}", "uses the test 'filter'"),
        ("{% if false %}{{ 'a'|center(9) }}{% endif %}", "uses the filter 'center'"),
        ("{{ 9 ** 9 ** 9 }}", "uses `**`"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "uses {% macro %}"),
        ("{% call f() %}{% endcall %}", "uses {% call %}"),
        ("{% include '/etc/passwd' %}", "uses {% include %}"),
        ("{% import '/etc/passwd' as x %}", "uses {% import %}"),
        ("{% from 'x' import y %}", "uses {% from %}"),
        ("{% extends 'x' %}", "uses {% extends %}"),
        ("{% block b %}{{ self.b() }}{% endblock %}", "uses {% block %}"),
        ("{{ self }}", "asks for 'self'"),
        ("{% for d in dimensions recursive %}{{ loop(dimensions) }}{% endfor %}", "a recursive loop"),
        ("{% for d in dimensions recursive %}{{ d.key }}{% endfor %}", "uses a recursive loop"),
        ("{% filter upper %}x{% endfilter %}", "uses {% filter %}"),
        ("{% set x %}x{% endset %}", "uses {% set %} around a text"),
        ("{% set x.y = 1 %}", "uses {% nsref %}"),
        ("{% for i in range(1000000000) %}{% endfor %}", "uses a call"),
        ("{{ range }}", "a variable 'range' that there is not"),
        ("{{ cycler }}", "a variable 'cycler' that there is not"),
        ("{% do x %}", "is no template"),
        ("{{ " + "(" * 5000 + ")" * 5000 + " }}", "nested too deeply"),
        ("{{ " + "x" * 5000 + " }}", "a variable 'xxx"),
    ],
)
def test_a_body_speaks_a_small_language_and_everything_else_is_refused_by_line(body: str, reason: str):
    with pytest.raises(UsageError) as caught:
        rubric_of(a_text(body="Mark.\n" + body))
    told = str(caught.value)
    assert told.startswith("--rubric own.md:11: the body ") or "nested too deeply" in told
    assert reason in told
    assert len(told) < 700
    assert "\n" not in told


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("{% set x = 'a' * 10000000000 %}", "`*` takes numbers only"),
        ("{{ [0] * 10000000000 }}", "`*` takes numbers only"),
        ("{{ '%1000000000d' % 1 }}", "`%` takes numbers only"),
        ("{{ dimensions[0].parse_raw }}", "no attribute 'parse_raw'"),
        ("{{ dimensions[0]['parse' ~ '_raw'] }}", "no attribute 'parse_raw'"),
        ("{{ dimensions[0]['__cl' ~ 'ass__'] }}", "no attribute '__class__'"),
        ("{{ dimensions|map(attribute='__class__')|join }}", "no attribute '__class__'"),
        ("{{ dimensions|map(attribute='key.__class__')|join }}", "no attribute '__class__'"),
        ("{{ ''|join(attribute='__class__') ~ ['a']|join('', attribute='__class__') }}", "no attribute"),
        ("{{ dimensions|map('attr', '__class__')|list }}", "attr"),
        ("{{ name.upper }}", "no attribute 'upper'"),
        ("{% for d in dimensions %}{{ loop.cycle }}{% endfor %}", "no attribute 'cycle'"),
        ("{% set x = 999999999999999 %}{% set x = x * x %}", "a number is too large"),
        ("{{ 'x' in [] is in 3 }}", ""),
    ],
)
def test_what_only_rendering_shows_is_refused_by_line(body: str, reason: str):
    with pytest.raises(UsageError) as caught:
        rubric_of(a_text(body="Mark.\n" + body))
    told = str(caught.value)
    assert told.startswith("--rubric own.md:11: the body cannot be rendered: "), told
    assert reason in told


@pytest.mark.parametrize(("body", "reason"), [("'\\ud800'", "surrogates not allowed"), ("'\\x00'", "a NUL")])
def test_a_body_makes_text_that_can_be_sent_and_kept(body: str, reason: str):
    with pytest.raises(UsageError, match=rf"own\.md:10: the body cannot be rendered: .*{reason}"):
        rubric_of(a_text(body=f"{{{{ {body} }}}}"))


@pytest.mark.parametrize(
    ("front", "reason"),
    [
        ("name: !!python/object/apply:os.system ['touch marker']\n", "not YAML: could not determine a constructor"),
        ("name: !!python/name:os.system\n", "not YAML: could not determine a constructor"),
        ("name: " + "[" * 100 + "]" * 100 + "\n", "nested too deeply"),
        ("name: &a [*a]\n", "nested too deeply"),
        ("name: !!set {a, b}\n", "a set is no text"),
        ("name: !!binary aGk=\n", "a bytes is no text"),
        ("name: 2026-01-01\n", "a date is no text"),
        ("version: 0x" + "f" * 100 + "\n", "a number is too large"),
        ("version: " + "9" * 5000 + "\n", "not YAML: Exceeds the limit"),
        ('name: "\\0"\n', "it holds a NUL or a lone surrogate"),
        ('name: "\\ud800"\n', "it holds a NUL or a lone surrogate"),
        (f"{'x' * 1000}: 1\n", "unknown key; known: "),
        ('"\\e]0;owned\\a\\nx": 1\n', "<U+001B>]0;owned<U+0007> x: unknown key"),
        ("name: x\0\n", "it is no text: it holds '\\x00'"),
        ("name: x\ud800\n", "it is no text: it holds '\\ud800'"),
    ],
)
def test_front_matter_is_plain_values_and_everything_else_is_refused_on_one_short_line(front: str, reason: str):
    kept = "".join(line for line in FRONT.splitlines(keepends=True) if not line.startswith(front.partition(":")[0]))
    with pytest.raises(UsageError) as caught:
        rubric_of(a_text(front + kept))
    told = str(caught.value)
    assert told.startswith("--rubric own.md:2: "), told
    assert reason in told
    assert len(told) < 700
    assert not any(c < " " for c in told)


def test_aliases_of_aliases_are_not_followed_to_billions_of_values():
    bomb = "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 30))
    with pytest.raises(UsageError, match="more than 10,000 values"):
        rubric_of(a_text(bomb + FRONT))


# ---- What a rubric may do


def body_of(body: str, front: str = FRONT) -> str:
    rubric = read_by(TRUSTED, a_text(front, body))
    assert isinstance(rubric, Rubric), rubric
    return rubric.instructions


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("{% for d in dimensions %}{{ loop.index }}. {{ d.title }}\n{% endfor %}", "1. Depth\n2. Wit\n"),
        ("{{ dimensions|map(attribute='key')|join(', ') }}", "depth, wit"),
        ("{{ dimensions|selectattr('block', 'equalto', 'path')|map(attribute='title')|first }}", "Depth"),
        ("{{ dimensions|length }} {{ dimensions[-1]['key'] }} {{ dimensions[0:1]|length }}", "2 wit 1"),
        ("{% if max_words %}x{% else %}{{ max_words }}{% endif %}", "None"),
        ("{{ path_weight }} + {{ answer_weight }} = {{ path_weight + answer_weight }}", "0.4 + 0.6 = 1.0"),
        ("{{ (path_weight * 100)|round|int }} %", "40 %"),
        ("{{ name|upper }} {{ version + 1 }} {{ 'a' ~ 'b' }} {{ 'a' + 'b' }}", "OWN 3 ab ab"),
        ("{% set first = dimensions|first %}{{ first.description }}{# unseen #}", "It goes deep."),
        ("{% raw %}{{ name }}{% endraw %}", "{{ name }}"),
        (
            "{{ dimensions }}",
            (
                "(Dimension(key='depth', title='Depth', block='path', description='It goes deep.'), "
                "Dimension(key='wit', title='Wit', block='answer', description='It is funny.'))"
            ),
        ),
    ],
)
def test_a_body_may_use_variables_loops_conditions_and_the_named_filters(body: str, text: str):
    assert body_of(body) == text


def test_aliases_in_front_matter_work():
    front = FRONT.replace("title: Depth", "title: &t Depth").replace("title: Wit", "title: *t")
    assert body_of("{{ dimensions[1].title }}", front) == "Depth"


# ---- Bombs: read in a child, which is limited


def refused(path: Path) -> str:
    with pytest.raises(UsageError) as caught:
        load_rubric(str(path))
    return str(caught.value).removeprefix(f"--rubric {path}")


@pytest.mark.nightly
@pytest.mark.process
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("{% set s = '" + "a" * 1000 + "' %}" + "{% for a in s %}" * 3 + "{% endfor %}" * 3, "takes more than 5 s"),
        ("{% set s = '" + "a" * 1000 + "' %}" + "{% for a in s %}" * 3 + "x" + "{% endfor %}" * 3, "1,000,000 bytes"),
        ("{% set x = 'aaaaaaaaaa' %}" + "{% set x = x ~ x ~ x ~ x %}" * 20 + "{{ x|length }}", "memory"),
        ("{% set x = 'aaaaaaaaaa' %}" + "{% set x = x|replace('a', 'aaaaaaaa') %}" * 20 + "{{ x|length }}", "memory"),
        ("x" * 500_000 + "{{ '" + "y" * 490_000 + "' }}{{ '" + "é" * 10 + "' * 1 }}", "takes numbers only"),
        ("{{ '" + "y" * 400_000 + "'|replace('y', 'yyy') }}", "1,000,000 bytes"),
        ("{{ " + "-" * 100_000 + "1 }}", "nested too deeply"),
        ("{{ " + "1+" * 100_000 + "1 }}", ""),
        ("{% if true %}" * 30_000 + "{% endif %}" * 30_000, ""),
        ("{% for d in dimensions %}" * 30 + "{% endfor %}" * 30, "too many statically nested blocks"),
    ],
)
def test_a_body_that_takes_time_memory_or_makes_a_long_text_is_refused(tmp_path: Path, body: str, reason: str):
    path = tmp_path / "own.md"
    path.write_text(a_text(body=body))
    told = refused(path)
    assert told.startswith(":10: "), told
    assert reason in told
    assert len(told) < 300


@pytest.mark.process
@pytest.mark.parametrize(
    "front", ["x: " + "[" * 400_000, "x: " + "{a: " * 100_000, "- " * 400_000, "? " * 300_000, "x: " + "&a " * 300_000]
)
def test_front_matter_that_takes_time_is_refused(tmp_path: Path, front: str):
    path = tmp_path / "own.md"
    path.write_text(a_text(front + "\n" + FRONT))
    assert refused(path).startswith((":1: ", ":2: "))


@pytest.mark.process
def test_a_call_in_a_rubric_runs_nothing(tmp_path: Path):
    marker = tmp_path / "marker"
    payload = f"cposix\\nsystem\\n(S'touch {marker}'\\ntR."
    for body in (f'{{{{ dimensions[0].parse_raw("{payload}", proto="pickle") }}}}', "{{ lipsum.__globals__.os }}"):
        path = tmp_path / "own.md"
        path.write_text(a_text(body=body))
        assert refused(path).startswith(":10: the body ")
    path.write_text(a_text(f"name: !!python/object/apply:os.system ['touch {marker}']\n"))
    assert refused(path).startswith(":2: name: not YAML")
    assert not marker.exists()


def test_a_fifo_a_device_a_binary_and_a_large_file_are_refused_before_they_are_read(tmp_path: Path):
    fifo, binary, large = tmp_path / "fifo.md", tmp_path / "binary.md", tmp_path / "large.md"
    os.mkfifo(fifo)
    binary.write_bytes(b"\x7fELF\xff\xfe\x00")
    with large.open("wb") as file:
        file.truncate(100_000_000)
    assert "it is no plain file" in refused(fifo)
    assert "it is no plain file" in refused(Path("/dev/zero"))
    assert "invalid start byte" in refused(binary)
    assert "more than 1,000,000 bytes" in refused(large)
    assert len(refused(tmp_path / ("n" * 5000 + ".md"))) < 300


@pytest.mark.process
def test_a_rubric_as_long_as_allowed_is_read_whole(tmp_path: Path):
    path = tmp_path / "own.md"
    path.write_text(a_text(body="\U0001f600" * 240_000), "utf-8")
    assert load_rubric(str(path)).instructions == "\U0001f600" * 240_000


@pytest.mark.process
def test_a_child_reads_a_rubric_as_this_process_does(tmp_path: Path):
    text = a_text(body="{% for d in dimensions %}{{ d.key }}: {{ d.title }}\n{% endfor %}{{ path_weight }}")
    path = tmp_path / "own.md"
    path.write_text(text)
    assert load_rubric(str(path)) == read_by(TRUSTED, text)
    assert fixed_message(load_rubric(str(path))).startswith("depth: Depth\nwit: Wit\n0.4\n")
