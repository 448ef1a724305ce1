"""Judge by batch through LiteLLM's proxy: `python -m benchmarks.batch_through_litellm PATH/TO/litellm`.

Needs `pip install 'litellm[proxy]'` in an environment of its own. The proxy stands before a local server with batches;
nothing leaves the machine. Prints what the run printed, and how many questions its batch had.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from tests.batch_server import BatchEndpoint

PORT = 4755
KEY = "sk-local-0123456789abcdef"
CONFIG = """
model_list:
  - model_name: m
    litellm_params: {model: openai/m, api_base: UPSTREAM, api_key: sk-upstream}
files_settings:
  - {custom_llm_provider: openai, api_base: UPSTREAM, api_key: sk-upstream}
"""
RUN = ("run", "Why?", "--model", "m", "-n", "3", "--topology", "cyclic", "--judge-batch", "--wait")


def main(program: str) -> int:
    """Start the proxy, do a run through it, and return the run's exit code."""
    server = BatchEndpoint()
    server.at_once = True
    with server.serving(), tempfile.TemporaryDirectory() as home:
        (Path(home) / "proxy.yaml").write_text(CONFIG.replace("UPSTREAM", server.base_url))
        upstream = {"OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": "sk-upstream", "LITELLM_MASTER_KEY": KEY}
        command = [program, "--config", "proxy.yaml", "--port", str(PORT)]
        proxy = subprocess.Popen(command, cwd=home, env={**os.environ, **upstream}, stdout=subprocess.DEVNULL)
        try:
            _wait_for(f"http://127.0.0.1:{PORT}/health/liveliness")
            here = {
                "OPENAI_BASE_URL": f"http://127.0.0.1:{PORT}/v1",
                "OPENAI_API_KEY": KEY,
                "PYTHONPATH": str(Path.cwd()),
            }
            done = subprocess.run(
                [sys.executable, "-m", "harness", *RUN], cwd=home, env={**os.environ, **here}, check=False
            )
        finally:
            proxy.terminate()
            proxy.wait(30)
        print("questions by batch:", [len(batch.asked) for batch in server.batches.values()])
    return done.returncode


def _wait_for(url: str) -> None:
    for _ in range(120):
        try:
            urlopen(url, timeout=2).close()
        except (URLError, TimeoutError, ConnectionError):
            time.sleep(1)
        else:
            return
    raise SystemExit("the proxy does not answer")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
