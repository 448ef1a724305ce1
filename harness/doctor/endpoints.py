"""Where agent and judge would be asked, with which key, and what kind of run that makes."""

from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from harness.core.errors import UsageError
from harness.core.settings import without_credentials
from harness.doctor.agent_checks import Subject
from harness.doctor.checks import Check, from_error
from harness.doctor.local import LOOPBACK
from harness.doctor.request import Asked
from harness.endpoints import OPENAI_HOST, Endpoint, judge_endpoint, jurors
from harness.pipeline import JudgeSpec, resolve_judge

_AGENTS_KEY, _JUDGES_KEY = "OPENAI_API_KEY", "HARNESS_JUDGE_API_KEY"


def endpoint_check(asked: Asked, endpoint: Endpoint | None) -> Check:
    """Tell where the agent's models are, by which API, and what decided that."""
    if endpoint is None:
        why = f"by {asked.origin('offline')}" if asked.settings.offline else "neither a key nor an address is set"
        return Check("endpoint", "skipped", f"none: {why}")
    if endpoint.base_url is None:
        where = f"{OPENAI_HOST} (OpenAI's own: {_AGENTS_KEY} is set, and no address)"
    else:
        origin = asked.origin("base_url") if asked.settings.base_url else "OPENAI_BASE_URL"
        where = f"{without_credentials(endpoint.base_url)} (by {origin})"
    api = f"by {asked.origin('api')}" if asked.settings.api else "the usual one there"
    found = f"{where}, API {endpoint.api} ({api})"
    if endpoint.base_url and not urlsplit(endpoint.base_url).path:
        return Check(
            "endpoint",
            "warn",
            f"{found}; an address without a path",
            f"most servers want {without_credentials(endpoint.base_url)}/v1",
        )
    return Check("endpoint", "ok", found)


def key_check(asked: Asked, endpoint: Endpoint | None) -> Check:
    """Tell whether the agent's key is there, never what it is."""
    key = asked.environ.get(_AGENTS_KEY)
    if endpoint is None:
        return Check("key", "skipped", f"{_AGENTS_KEY} is {'set, and not used' if key else 'not set'}")
    return _well_formed("key", _AGENTS_KEY, key) if key else _unset("key", _AGENTS_KEY, endpoint)


def judge_checks(asked: Asked, subject: Subject | None) -> tuple[JudgeSpec | None, list[Check]]:
    """Resolve the judge as a run does, and tell what was found."""
    if subject is None:
        return None, [Check("judge", "skipped", "it depends on the agent")]
    try:
        spec = resolve_judge(asked.settings, asked.environ, subject.spec.model, offline=subject.spec.offline)
        seats = jurors(asked.settings, asked.environ)
        endpoints = [judge_endpoint(*seat) for seat in seats]
    except UsageError as exc:
        return None, [from_error("judge", exc)]
    checks: list[Check] = []
    for juror, endpoint, (_, environ) in zip(spec.members, endpoints, seats, strict=True):
        if juror.offline or endpoint is None:
            checks.append(Check("judge", "ok", f"{juror.model}, the embedded one"))
        else:
            checks += [_judge(asked, subject, juror, endpoint), _judge_key(environ, endpoint)]
    return spec, checks


def run_check(asked: Asked, failed: Sequence[str], subject: Subject | None, judge: JudgeSpec | None) -> Check:
    """Tell whether a run would be a real one, after the checks of which `failed` did."""
    if failed or subject is None or judge is None:
        nothing_set = not any((asked.settings.base_url, *map(asked.environ.get, (_AGENTS_KEY, "OPENAI_BASE_URL"))))
        return Check("run", "fail", f"would stop: see {', '.join(failed)}", _ways_out(asked) if nothing_set else None)
    if subject.spec.offline:
        why = f"by {asked.origin('offline')}" if asked.settings.offline else f"no {_AGENTS_KEY}, and no address"
        found = f"would be the OFFLINE SELF-TEST ({why}); its ranks say nothing of any LLM"
        return Check("run", "warn", found, _ways_out(asked))
    if judge.offline:
        found = "would be ranked by the embedded judge: a SELF-TEST, whose ranks say nothing of any LLM"
        return Check("run", "warn", found, "name a model with --judge-model")
    return Check("run", "ok", "would be a real one")


def _ways_out(asked: Asked) -> str:
    model = asked.settings.model or "NAME"
    with_server = asked.command("run", base_url="http://localhost:8000/v1", model=model)
    if asked.settings.offline:
        return f"take {asked.origin('offline')} away for a real run"
    return f"with a key:           {_AGENTS_KEY}=sk-... {asked.command('run')}\nwith a local server:  {with_server}"


def _judge(asked: Asked, subject: Subject, spec: JudgeSpec, endpoint: Endpoint) -> Check:
    found = f"{spec.model} at {endpoint.host}, API {spec.api}"
    agents = subject.spec.endpoint
    if agents and spec.model == subject.spec.model and endpoint.host == agents.host:
        return Check(
            "judge",
            "warn",
            f"{found}: the agent's own model, and judges favour their own",
            "name another with --judge-model",
        )
    origin = asked.origin("judge_model")
    return Check("judge", "ok", f"{found} (by {origin})" if origin else found)


def _judge_key(environ: Mapping[str, str], endpoint: Endpoint) -> Check:
    if own := environ.get(_JUDGES_KEY):
        return _well_formed("judge key", _JUDGES_KEY, own)
    lent = environ.get(_AGENTS_KEY, "").strip()
    if lent and endpoint.key.get_secret_value() == lent:
        return _well_formed("judge key", _AGENTS_KEY, lent, "serves the judge too")
    return _unset("judge key", _JUDGES_KEY, endpoint)


def _well_formed(name: str, variable: str, key: str, state: str = "is set") -> Check:
    key = key.strip()  # as a run does; what else no header can carry it has refused already
    quoted = key[0] in "'\"" or key[-1] in "'\""
    if quoted or not key.isascii() or not key.isprintable() or " " in key:
        return Check(
            name,
            "fail",
            f"{variable} {state}, but no key looks like that: it has quotes, spaces, a line "
            "break or letters beyond ASCII",
            f"set {variable} again, to the key alone",
        )
    return Check(name, "ok", f"{variable} {state}")


def _unset(name: str, variable: str, endpoint: Endpoint) -> Check:
    """A server on this machine rarely wants a key, OpenAI always does, and of the others nobody knows."""
    found = f"{variable} is not set; {endpoint.host} gets the word `none` for a key"
    if urlsplit(endpoint.base_url or "").hostname in LOOPBACK:
        return Check(name, "ok", f"{found}, as local servers take it")
    return Check(name, "fail" if endpoint.host == OPENAI_HOST else "warn", found, f"set {variable}")
