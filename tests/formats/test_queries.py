"""Queries from the outside."""

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.errors import UsageError
from harness.core.records import Query
from harness.formats.queries import make_queries, query_from, read_queries

Written = Any


@pytest.fixture
def write(tmp_path: Path) -> Written:
    def to(name: str, content: str | bytes) -> str:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return to


def texts_of(source: str) -> list[str]:
    return [q.text for q in read_queries(source)]


# ---- One query


@given(st.text(min_size=1).filter(str.strip), st.text(min_size=1).filter(str.strip))
def test_an_id_is_made_from_the_text_and_tells_texts_apart(one: str, other: str) -> None:
    assert query_from(one) == query_from(one)
    assert (query_from(one).id == query_from(other).id) == (one == other)
    assert query_from(one).text == one


def test_an_id_and_a_reference_are_kept_where_given() -> None:
    assert query_from("Why?", reference="So.", id="q1") == Query(id="q1", text="Why?", reference="So.")


@pytest.mark.parametrize("text", ["", " ", "\n\t ", "\u3000"])
def test_an_empty_query_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError, match="query is empty"):
        query_from(text)


@pytest.mark.parametrize("text", ["caf\udce9", "\ud800 why?"])
def test_a_query_that_is_no_valid_unicode_is_made_valid(text: str) -> None:
    """As of arguments in another encoding, or half a surrogate pair in JSON."""
    found = query_from(text)
    assert found.text == "".join("\ufffd" if c in text and "\ud800" <= c <= "\udfff" else c for c in text)
    assert Query.model_validate_json(found.model_dump_json()) == found


# ---- JSONL


def test_jsonl_is_an_object_or_a_string_a_line(write: Written) -> None:
    lines = [
        '{"query": "Why?", "id": "q1", "reference": "So.", "level": 3, "tags": ["a"]}',
        "",
        '"Who?"',
        "  ",
        '{"query": "When?"}',
    ]
    first, second, third = read_queries(write("q.jsonl", "\n".join(lines)))
    assert first == Query(id="q1", text="Why?", reference="So.", metadata={"level": 3, "tags": ["a"]})
    assert second == query_from("Who?")
    assert third == query_from("When?")


@pytest.mark.parametrize("key", ["query", "text", "input", "question", "prompt"])
@pytest.mark.parametrize("reference", ["reference", "expected", "answer", "target"])
def test_the_usual_names_for_query_and_reference_are_known(write: Written, key: str, reference: str) -> None:
    (found,) = read_queries(write("q.jsonl", json.dumps({key: "Why?", reference: "So."})))
    assert (found.text, found.reference, found.metadata) == ("Why?", "So.", {})


@pytest.mark.parametrize(("given_id", "kept"), [("a", "a"), (7, "7"), (0, "0"), ("0", "0")])
def test_an_id_is_kept_also_where_it_is_the_number_0(write: Written, given_id: Any, kept: str) -> None:
    (found,) = read_queries(write("q.jsonl", json.dumps({"query": "Why?", "id": given_id})))
    assert found.id == kept


@pytest.mark.parametrize("given_id", [None, ""])
def test_an_id_that_is_none_is_made_from_the_text(write: Written, given_id: Any) -> None:
    assert list(read_queries(write("q.jsonl", json.dumps({"query": "Why?", "id": given_id})))) == [query_from("Why?")]


@pytest.mark.parametrize("text", ["a\u2028b", "a\u2029b", "a\x85b", "a\x1cb", "a\x0cb", "naïve 日本 🙂"])
def test_a_line_ends_only_where_a_line_ends_in_jsonl(write: Written, text: str) -> None:
    lines = [
        json.dumps({"query": q}, ensure_ascii=not text.isprintable() and ord(max(text)) < 0x80) for q in (text, "Why?")
    ]
    assert texts_of(write("q.jsonl", "\n".join(lines))) == [text, "Why?"]


@pytest.mark.parametrize("name", ["q.jsonl", "q.ndjson", "q.txt", "Q.JSONL"])
def test_objects_are_read_as_such_under_any_ending_but_csv(write: Written, name: str) -> None:
    assert texts_of(write(name, '{"query": "Why?"}\n{"query": "Who?"}\n')) == ["Why?", "Who?"]


@pytest.mark.parametrize("text", ['[{"query": "Why?"}]', '[\n  {"query": "Why?"}\n]'])
def test_an_array_in_a_json_file_is_no_query(write: Written, text: str) -> None:
    with pytest.raises(
        UsageError, match=r"q\.json:1: .*(found list|not JSON).*; an object a line, as `jq -c '\.\[\]'`"
    ):
        texts_of(write("q.json", text))


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ('{"query": "Why?"', "not JSON"),
        ("Why?", "not JSON"),
        ("{'query': 'Why?'}", "not JSON"),
        ("7", "found int"),
        ('["Why?"]', "found list"),
        ("null", "found NoneType"),
        ("{}", "no text under 'query' or 'text'"),
        ('{"query": ""}', "no text"),
        ('{"query": 7}', "no text"),
        ('{"query": null, "text": " "}', "no text"),
        ('""', "query is empty"),
        ('{"query": "Why?", "score": NaN}', "not JSON"),
        ('{"query": "Why?", "score": 1e999}', "not JSON"),
        ("[" * 100_000, "not JSON"),
        ('{"query": "A very old question", "id": "q1"}', "'q1' stands there twice"),
    ],
)
def test_a_fault_is_a_usage_error_with_the_file_and_the_line(write: Written, line: str, fault: str) -> None:
    source = write("q.jsonl", f'{{"query": "A fine one", "id": "q1"}}\n\n{line}\n')
    with pytest.raises(UsageError, match=fault) as caught:
        list(read_queries(source))
    assert f"{source}:3: " in str(caught.value)
    assert "\n" not in str(caught.value)


def test_queries_before_a_fault_are_yielded(write: Written) -> None:
    queries = read_queries(write("q.jsonl", '"Why?"\n{'))
    assert next(queries) == query_from("Why?")
    with pytest.raises(UsageError):
        next(queries)


def test_half_a_surrogate_pair_in_json_is_made_valid(write: Written) -> None:
    (found,) = read_queries(
        write("q.jsonl", '{"query": "so \\ud83d", "reference": "\\udc00", "note": "\\ud800", "id": "\\ud801"}')
    )
    assert (found.text, found.reference, found.metadata, found.id) == (
        "so \ufffd",
        "\ufffd",
        {"note": "\ufffd"},
        "\ufffd",
    )


# ---- CSV


def test_csv_has_a_column_query_and_the_others_alike(write: Written) -> None:
    content = 'id,query,reference,level\nq1,"Why, though?",So.,3\n\n,"Two\nlines",,\n'
    first, second = read_queries(write("q.csv", content))
    assert first == Query(id="q1", text="Why, though?", reference="So.", metadata={"level": "3"})
    assert second == query_from("Two\nlines")


@pytest.mark.parametrize("mark", [",", ";", "\t"])
@pytest.mark.parametrize("name", ["q.csv", "q.tsv"])
def test_csv_is_split_at_what_stands_most_often_in_its_first_line(write: Written, mark: str, name: str) -> None:
    rows = ("id", " query", "reference", '"a,,,,;;;;\t\t\t\t"'), ("q1", '"Why; or,\thow?"', "So it is", "x")
    (found,) = read_queries(write(name, "\r\n".join(map(mark.join, rows))))
    assert (found.id, found.text, found.reference) == ("q1", "Why; or,\thow?", "So it is")


def test_csv_as_a_spreadsheet_writes_it(write: Written) -> None:
    assert texts_of(write("Q.CSV", "\ufeffquery\r\nWhy?\r\nWho?\r\n")) == ["Why?", "Who?"]


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        ("id,query\nq1,Why?\nq2,What is a, or b?\n", r":3: .*more fields"),
        ("query,query\nWhy?,Who?\n", r":1: two columns are named 'query'"),
        ("id,query\nq1,Why?\nq2,\n", ":3: no text"),
        ("id,words\nq1,Why?\n", ":2: no text under 'query'.*'id, words'$"),
        ("id;qurey\nq1;Why?\n", r":2: no text under .*'id, qurey'; did you mean 'query'\?$"),
        ("ID,Query\nq1,Why?\n", r":2: .*; did you mean 'query'\?$"),
        ("id;query\nq1;What is a; or b?\n", r":2: .*a text that holds ';' needs quotes"),
        ("id,query\nq1,Why?\nq1,Who?\n", ":3: .*twice"),
        ("query\nWhy is\rthis?\n", ":2: .*new-line character"),
    ],
)
def test_a_fault_in_csv_is_a_usage_error_with_the_line(write: Written, rows: str, fault: str) -> None:
    with pytest.raises(UsageError, match=fault):
        list(read_queries(write("q.csv", rows)))


# ---- Plain lines, standard input, nothing at all


def test_any_other_text_is_a_query_a_line(write: Written) -> None:
    assert texts_of(write("q.txt", "Why?\r\n\n  Who is it?  \n# no comment\n[1] is a line\n")) == [
        "Why?",
        "Who is it?",
        "# no comment",
        "[1] is a line",
    ]


@pytest.mark.parametrize("name", ["promptfooconfig.yaml", "mine.PY"])
def test_the_lines_of_a_file_of_another_kind_are_no_queries(write: Written, name: str) -> None:
    with pytest.raises(UsageError, match=r"is no file of queries; give \.jsonl, \.csv, or lines of \.txt$"):
        texts_of(write(name, "prompts:\n  - Why?\n"))


def test_a_plain_line_may_begin_with_a_quotation(write: Written) -> None:
    assert texts_of(write("q.txt", '"Hello, World": where is it from?\n"Who?"\n')) == [
        '"Hello, World": where is it from?',
        "Who?",
    ]


@pytest.mark.parametrize(
    "content", ["Why?\nWho?\n", '{"query": "Why?"}\n"Who?"', "\ufeffWhy?\nWho?", '\ufeff{"query": "Why?"}\nWho?']
)
def test_standard_input_is_lines_or_jsonl(monkeypatch: pytest.MonkeyPatch, content: str) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(content))
    assert texts_of("-") == ["Why?", "Who?"]


@pytest.mark.parametrize("header", ["id,query", '"id";"query"', "query\tlevel"])
def test_csv_is_known_by_its_first_line_too(write: Written, monkeypatch: pytest.MonkeyPatch, header: str) -> None:
    mark = re.sub('[a-z"]', "", header)
    content = f"{header}\n{mark.join(('Why?', 'Why?'))}\n"
    monkeypatch.setattr("sys.stdin", io.StringIO(content))
    assert texts_of("-") == texts_of(write("q.txt", content)) == ["Why?"]


def test_a_fault_on_standard_input_has_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO('{"query": "Why?"}\n{"query": '))
    with pytest.raises(UsageError, match="-:2: not JSON"):
        list(read_queries("-"))


@pytest.mark.parametrize("name", ["q.jsonl", "q.csv", "q.txt"])
@pytest.mark.parametrize("content", ["", "\n\n", "\ufeff", "   \n"])
def test_a_file_without_a_query_is_a_usage_error(write: Written, name: str, content: str) -> None:
    source = write(name, content)
    with pytest.raises(UsageError, match=f"--queries {source}: no query in it"):
        list(read_queries(source))


def test_a_file_that_cannot_be_read_is_a_usage_error(write: Written, tmp_path: Path) -> None:
    for source in (str(tmp_path / "none.jsonl"), str(tmp_path), write("q.txt", b"caf\xe9\n")):
        with pytest.raises(
            UsageError, match=r"cannot be read( \(|: it is a folder|.* \(byte 3 is 0xe9\); save it as UTF-8$)"
        ):
            list(read_queries(source))


def test_the_same_text_twice_is_a_usage_error_unless_the_ids_differ(write: Written) -> None:
    with pytest.raises(UsageError, match=r":2: .*twice"):
        list(read_queries(write("q.txt", "Why?\nWhy?\n")))
    assert texts_of(write("q.jsonl", '{"query": "Why?", "id": 1}\n{"query": "Why?", "id": 2}')) == ["Why?", "Why?"]


# ---- Names that look like others


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ({"refernce": "So."}, r"q.jsonl: 'refernce' is metadata, .*; did you mean 'reference'\?"),
        ({"__expected": "So."}, r"'__expected' is metadata, .*; did you mean 'expected'\?"),
        ({"refernce": "So.", "answer": "So."}, None),
        ({"level": 3, "context": "c", "topic": "t"}, None),
    ],
)
def test_metadata_that_look_like_a_misspelt_reference_are_named_once(
    write: Written, caplog: pytest.LogCaptureFixture, names: dict[str, Any], said: str | None
) -> None:
    rows = [json.dumps({"query": text, **names}) for text in ("Why?", "Who?")]
    assert len(list(read_queries(write("q.jsonl", "\n".join(rows))))) == 2
    assert len(caplog.messages) == bool(said)
    assert not said or re.search(said, caplog.messages[0])


def test_a_text_in_python_that_is_a_files_name_is_no_query(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("my queries", "mine.py"):
        Path(name).write_text("Why?")
    for text, what in {
        "my queries": "is a file",
        "mine.py:agent": "is a file",
        "train.jsonl": "names a file that is not there",
        "data/train.tsv": "names a file that is not there",
    }.items():
        with pytest.raises(UsageError, match=rf"{text}' {what}: Path\(\.\.\.\) asks what is in a file"):
            make_queries(text)
        assert [query.text for query in make_queries({"query": text})] == [text]
    for text in ("What does main.py do?", "Explain train.jsonl", "e.g. nothing", "\0 csv", "x" * 5000):
        assert [query.text for query in make_queries(text)] == [text]
