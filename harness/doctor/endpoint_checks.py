"""The checks of the endpoints: where agent and judge are asked, with which key, and what kind of run that makes."""

from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from harness.core.addresses import without_credentials
from harness.core.errors import UsageError
from harness.core.settings import JUDGE_KEY
from harness.doctor.agent_checks import CheckedAgent
from harness.doctor.checks import Check, failed_check
from harness.doctor.local_servers import LOOPBACK
from harness.doctor.request import DoctorRequest
from harness.endpoints.address import AGENT_KEY, OPENAI_HOST, Endpoint, judge_endpoint, jurors
from harness.endpoints.credentials import AGENT_URL
from harness.pipeline.resolve import JudgeSpec, resolve_judge


def endpoint_check(request: DoctorRequest, endpoint: Endpoint | None) -> Check:
    """Say where the agent's models are, by which API, and what decided that."""
    if endpoint is None:
        why = f"by {request.origin('offline')}" if request.settings.offline else "neither a key nor an address is set"
        return Check("endpoint", "skipped", f"none: {why}")
    api = f"by {request.origin('api')}" if request.settings.api else "the usual one there"
    finding = f"{_place(request, endpoint)}, API {endpoint.api} ({api})"
    if endpoint.base_url and not urlsplit(endpoint.base_url).path:
        advice = f"most servers want {without_credentials(endpoint.base_url)}/v1"
        return Check("endpoint", "warn", f"{finding}; an address without a path", advice)
    return Check("endpoint", "ok", finding)


def _place(request: DoctorRequest, endpoint: Endpoint) -> str:
    if endpoint.base_url is None:
        return f"{OPENAI_HOST} (OpenAI's own: {AGENT_KEY} is set, and no address)"
    origin = request.origin("base_url") if request.settings.base_url else AGENT_URL
    return f"{without_credentials(endpoint.base_url)} (by {origin})"


def key_check(request: DoctorRequest, endpoint: Endpoint | None) -> Check:
    """Say whether the agent's key is set, never what it is."""
    key = request.environ.get(AGENT_KEY)
    if endpoint is None:
        return Check("key", "skipped", f"{AGENT_KEY} is {'set, and not used' if key else 'not set'}")
    return _set_key("key", AGENT_KEY, key) if key else _missing_key("key", AGENT_KEY, endpoint)


def judge_checks(request: DoctorRequest, agent: CheckedAgent | None) -> tuple[JudgeSpec | None, list[Check]]:
    """Resolve the judge as a run does. Return the judge, None where that fails, with the checks of each juror."""
    if agent is None:
        return None, [Check("judge", "skipped", "it depends on the agent")]
    try:
        spec = resolve_judge(request.settings, request.credentials, agent.spec.model, offline=agent.spec.offline)
        seats = jurors(request.settings, request.credentials)
        endpoints = [judge_endpoint(*seat) for seat in seats]
    except UsageError as exc:
        return None, [failed_check("judge", exc)]
    checks: list[Check] = []
    for juror, endpoint, (_, credentials) in zip(spec.members, endpoints, seats, strict=True):
        if juror.offline or endpoint is None:
            checks.append(Check("judge", "ok", f"{juror.model}, the embedded one"))
        else:
            checks += [_juror_check(request, agent, juror, endpoint), _judge_key_check(credentials.environ, endpoint)]
    return spec, checks


def run_check(
    request: DoctorRequest,
    failed: Sequence[str],
    agent: CheckedAgent | None,
    judge: JudgeSpec | None,
    *,
    runs_elsewhere: bool,
) -> Check:
    """Say whether a run would be a real one, where the checks named in `failed` failed.

    `runs_elsewhere`: a key or an address could make it one; not where there is no such agent.
    """
    settings = request.settings
    if failed or agent is None or judge is None:
        nothing_set = not settings.base_url and not any(map(request.environ.get, (AGENT_KEY, AGENT_URL)))
        advice = _how_to_run_for_real(request) if nothing_set and runs_elsewhere else None
        return Check("run", "fail", f"would stop: see {', '.join(failed)}", advice)
    if agent.spec.offline:
        why = f"by {request.origin('offline')}" if settings.offline else f"no {AGENT_KEY}, and no address"
        finding = f"would be the OFFLINE SELF-TEST ({why}); its ranks say nothing of any LLM"
        return Check("run", "warn", finding, _how_to_run_for_real(request))
    if judge.offline:
        finding = "would be ranked by the embedded judge: a SELF-TEST, whose ranks say nothing of any LLM"
        return Check("run", "warn", finding, "name a model with --judge-model")
    return Check("run", "ok", "would be a real one")


def _how_to_run_for_real(request: DoctorRequest) -> str:
    if request.settings.offline:
        return f"take {request.origin('offline')} away for a real run"
    model = request.settings.model or "NAME"
    with_server = request.command("run", base_url="http://localhost:8000/v1", model=model)
    return f"with a key:           {AGENT_KEY}=sk-... {request.command('run')}\nwith a local server:  {with_server}"


def _juror_check(request: DoctorRequest, agent: CheckedAgent, spec: JudgeSpec, endpoint: Endpoint) -> Check:
    finding = f"{spec.model} at {endpoint.host}, API {spec.api}"
    agents = agent.spec.endpoint
    if agents and spec.model == agent.spec.model and endpoint.host == agents.host:
        finding = f"{finding}: the agent's own model, and judges favour their own"
        return Check("judge", "warn", finding, "name another with --judge-model")
    origin = request.origin("judge_model")
    return Check("judge", "ok", f"{finding} (by {origin})" if origin else finding)


def _judge_key_check(environ: Mapping[str, str], endpoint: Endpoint) -> Check:
    if judge_key := environ.get(JUDGE_KEY):
        return _set_key("judge key", JUDGE_KEY, judge_key)
    agent_key = environ.get(AGENT_KEY, "").strip()
    if agent_key and endpoint.key.get_secret_value() == agent_key:
        return _set_key("judge key", AGENT_KEY, agent_key, "serves the judge too")
    return _missing_key("judge key", JUDGE_KEY, endpoint)


def _set_key(name: str, variable: str, key: str, state: str = "is set") -> Check:
    key = key.strip()  # as a run does; what else no header can carry it has refused already
    quoted = key[0] in "'\"" or key[-1] in "'\""
    if quoted or not key.isascii() or not key.isprintable() or " " in key:
        finding = (
            f"{variable} {state}, but no key looks like that: it has quotes, spaces, a line break or letters beyond "
            "ASCII"
        )
        return Check(name, "fail", finding, f"set {variable} again, to the key alone")
    return Check(name, "ok", f"{variable} {state}")


def _missing_key(name: str, variable: str, endpoint: Endpoint) -> Check:
    """Local servers rarely want a key, and OpenAI always does; of the others nobody knows."""
    finding = f"{variable} is not set; {endpoint.host} gets the word `none` for a key"
    if urlsplit(endpoint.base_url or "").hostname in LOOPBACK:
        return Check(name, "ok", f"{finding}, as local servers take it")
    return Check(name, "fail" if endpoint.host == OPENAI_HOST else "warn", finding, f"set {variable}")
