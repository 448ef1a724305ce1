"""Which secrets of its environment a Ray worker sends where: as the engine of one process, by what the driver names."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from harness.core.errors import UsageError
from harness.core.settings_sources import load
from harness.endpoints.address import Endpoint, agent_endpoint
from harness.endpoints.credentials import Credentials
from harness.pipeline.resolve import AgentSpec
from harness.rollouts.loading import load_agent
from tests.endpoints.test_credentials import GATEWAY, OTHER_SERVERS, SAME_SERVER

pytest.importorskip("ray")
from harness.pipeline.ray_rollouts import worker_job
from harness.pipeline.ray_worker import WorkerJob

HEADERS = {"OPENAI_CUSTOM_HEADERS": "X-Gateway-Key: abc"}
OF_DRIVER: list[dict[str, str]] = [{}, {"OPENAI_API_KEY": "sk-driver"}, HEADERS]
OF_WORKER: list[dict[str, str]] = [{}, {"OPENAI_API_KEY": "sk-worker"}, {"OPENAI_API_KEY": "sk-worker", **HEADERS}]
URLS = [*(url for url in OTHER_SERVERS if "@" not in url), GATEWAY, *SAME_SERVER[:2], "https://api.openai.com/v1"]


def job_of(url: str, credentials: Credentials) -> tuple[Endpoint | None, WorkerJob]:
    settings = load({"base_url": url, "engine": "ray"})
    endpoint = agent_endpoint(settings, credentials)
    spec = AgentSpec(load_agent("search", Path.cwd()), endpoint, offline=False, model="m")
    return endpoint, worker_job(spec, settings, "run-1", remote=True)[0]


def asked_by_worker(job: WorkerJob, environ: Mapping[str, str]) -> tuple[Endpoint | None, dict[str, str]]:
    kept = job.environ(environ)
    return agent_endpoint(*job.asked_with(kept, "10.0.0.2")), kept


@pytest.mark.parametrize("url", URLS)
def test_a_worker_sends_its_secrets_only_to_a_server_that_the_driver_named(url: str):
    for of_driver in OF_DRIVER:
        credentials = Credentials.naming(of_driver, GATEWAY)
        if not credentials.may_go_to(url) and of_driver:
            with pytest.raises(UsageError, match="would go to"):  # before there is a worker
                job_of(url, credentials)
            continue
        here, job = job_of(url, credentials)
        for of_worker in OF_WORKER:
            addresses = {"OPENAI_BASE_URL": url, "HARNESS_BASE_URL": url, "HARNESS_JUDGE_BASE_URL": url}
            environ = of_worker | addresses  # a worker's addresses are not the driver's
            if job.has_key and not of_worker:
                with pytest.raises(UsageError, match=r"OPENAI_API_KEY is not set in the environment .* on 10\.0\.0\.2"):
                    asked_by_worker(job, environ)
                continue
            asked, kept = asked_by_worker(job, environ)
            assert here
            assert asked
            assert asked.url == here.url
            assert asked.named == here.named == credentials.may_go_to(url)
            secrets = of_worker if here.named else {}
            assert asked.key.get_secret_value() == secrets.get("OPENAI_API_KEY", "none")
            assert {name: value for name, value in kept.items() if name not in addresses} == secrets


def test_trust_in_an_archive_holds_for_its_workers():
    _, job = job_of(GATEWAY, Credentials({}).also_to((), every_origin=True))
    asked, _ = asked_by_worker(job, OF_WORKER[2])
    assert asked
    assert asked.key.get_secret_value() == "sk-worker"


def test_a_password_of_the_address_is_the_workers_own():
    credentials = Credentials.naming({"OPENAI_BASE_URL": "https://me:driver@gateway.example/v1"})
    settings = load({"engine": "ray"})
    spec = AgentSpec(load_agent("search", Path.cwd()), agent_endpoint(settings, credentials), offline=False, model="m")
    job, _ = worker_job(spec, settings, "run-1", remote=True)
    assert "driver" not in repr(job)
    own = "https://me:worker@gateway.example/v1"
    asked, _ = asked_by_worker(job, {"OPENAI_BASE_URL": own})
    assert asked
    assert asked.url == own
    elsewhere, _ = asked_by_worker(job, {"OPENAI_BASE_URL": "https://me:worker@other.example/v1"})
    assert elsewhere
    assert elsewhere.url == GATEWAY


def test_where_the_agent_brings_its_models_no_key_of_the_worker_names_an_endpoint():
    spec = AgentSpec(load_agent("search", Path.cwd()), None, offline=False, model="m")
    job, _ = worker_job(spec, load({"engine": "ray"}), "run-1", remote=True)
    asked, kept = asked_by_worker(job, OF_WORKER[2] | {"OPENAI_BASE_URL": GATEWAY})
    assert (asked, kept) == (None, {})
