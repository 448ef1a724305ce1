"""What a verdict on the tiny pair shows of a judge."""

import pytest

from harness.core.records import Failure
from harness.doctor.live_checks import verdict_check
from harness.judging.rubric import load_rubric
from tests.builders import a_judged, an_unjudged

RUBRIC = load_rubric("writing")


@pytest.mark.parametrize(
    ("form", "repaired", "status", "found"),
    [
        ("json_schema", False, "ok", "json_schema is accepted, and the reply fits rubric writing"),
        ("json_schema", True, "warn", "json_schema is accepted, and the reply fits rubric writing, when asked again"),
        ("text", False, "warn", "json_schema is refused; text is accepted, and the reply fits rubric writing"),
    ],
)
def test_the_form_of_the_reply_is_named_and_a_repair_is_a_warning(form: str, repaired: bool, status: str, found: str):
    check = verdict_check(a_judged(form=form, repaired=repaired), RUBRIC)
    assert (check.status, check.found) == (status, found)


@pytest.mark.parametrize(
    ("kind", "advice"), [("output", "--judge-model"), ("refusal", "name another judge"), ("api", "in a while")]
)
def test_a_failed_verdict_fails_by_its_cause(kind: str, advice: str):
    failure = Failure.model_validate({"kind": kind, "type": "SomeError", "message": "the reason"})
    check = verdict_check(an_unjudged(failure=failure), RUBRIC)
    assert check.status == "fail"
    assert "the reason" in check.found
    assert advice in (check.do or "")
