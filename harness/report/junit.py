"""A gate as a JUnit file, which CI servers read: a test for the gate, and one for each query."""

from collections.abc import Iterable
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from harness.core.comparisons import ComparedQuery
from harness.core.gates import GateResult
from harness.core.unicode import visible
from harness.report.summary.comparison import met_queries

_SUITE = "harness gate"
_TEXT = 300
"""Characters of a query's text."""


def junit_xml(gate: GateResult, queries: Iterable[ComparedQuery]) -> str:
    """Return a gate and its queries as JUnit XML: only the gate's test can fail; if it cannot tell, it is skipped."""
    met = met_queries(queries, (0, 1))
    suite = Element("testsuite", name=_SUITE, tests=str(len(met) + 1))
    first, second = (side.label for side in gate.comparison.sides[:2])
    own = SubElement(suite, "testcase", classname=_SUITE, name=f"{second} is not worse than {first}")
    unsure = gate.passed and gate.finding != "not worse"
    if not gate.passed:
        SubElement(own, "failure", type=gate.finding, message=_shown(gate.sentence))
    elif unsure:
        SubElement(own, "skipped", message=_shown(gate.sentence))
    SubElement(own, "system-out").text = _shown(gate.sentence)
    for query in met:
        test = SubElement(suite, "testcase", classname=f"{_SUITE}.queries", name=_shown(query.name))
        won = f"{gate.comparison.sides[1].label} won {query.won} {'pair' if query.pairs == 1 else 'pairs'}"
        SubElement(test, "system-out").text = _shown(f"{won}: {query.query.text[:_TEXT]}")
    suite.attrib |= {"failures": str(int(not gate.passed)), "errors": "0", "skipped": str(int(unsure))}
    return _document(suite)


def junit_refusal(reason: str) -> str:
    """Return a gate that was refused as JUnit XML: one test, which ends in an error."""
    suite = Element("testsuite", name=_SUITE, tests="1", failures="0", errors="1", skipped="0")
    test = SubElement(suite, "testcase", classname=_SUITE, name="B is not worse than A")
    SubElement(test, "error", type="refused", message=_shown(reason))
    return _document(suite)


def _document(suite: Element) -> str:
    suites = Element("testsuites")
    suites.append(suite)
    indent(suites)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{tostring(suites, "unicode")}\n'


def _shown(text: str) -> str:
    """Return a text with marks for what XML cannot hold; U+FFFE and U+FFFF are the only ones that are not marked."""
    return visible(text).replace("\ufffe", "\ufffd").replace("\uffff", "\ufffd")
