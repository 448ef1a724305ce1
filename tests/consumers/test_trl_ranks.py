"""`harness.integrations.trl.reward` in TRL's trainer over two processes (gloo, CPU): a split group is judged once."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.fake_endpoint import FakeEndpoint

pytest.importorskip("trl")

pytestmark = [pytest.mark.consumers, pytest.mark.process]
TRAINING = """\
import json, sys
import datasets, torch, trl
from harness.integrations.trl import reward
from tests.consumers.tiny_model import tiny_model, tiny_tokenizer

out, address = sys.argv[1:]
tokenizer = tiny_tokenizer()
config = trl.GRPOConfig(
    output_dir=out, per_device_train_batch_size=2, num_generations=4, max_completion_length=8, max_steps=2,
    logging_steps=1, save_strategy="no", report_to=[], use_cpu=True, bf16=False, ddp_backend="gloo",
)
rows = datasets.Dataset.from_list([{"prompt": [{"role": "user", "content": f"Why {n}?"}]} for n in range(4)])
trainer = trl.GRPOTrainer(
    model=tiny_model(tokenizer), args=config, train_dataset=rows, processing_class=tokenizer,
    reward_funcs=reward("j", judge_base_url=address, store=out + "/verdicts", order="both"),
)
trainer.train()
if torch.distributed.get_rank() == 0:
    logs = {name: list(trainer._logs[name]) for name in ("prompt", "completion", "advantages")}
    logs |= {"rewards": list(trainer._logs["rewards"]["tournament"]), "judge": list(trainer._logs["extra"]["judge"])}
    print("LOGS" + json.dumps(logs | {"history": trainer.state.log_history}))
torch.distributed.destroy_process_group()
"""


def test_a_group_that_is_split_over_two_processes_is_judged_once(endpoint: FakeEndpoint, tmp_path: Path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = os.environ | {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    shared |= {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true"}
    command = [sys.executable, "-c", TRAINING, str(tmp_path), endpoint.base_url]
    ranks = [
        subprocess.Popen(
            command, env=shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)}, stdout=subprocess.PIPE, text=True
        )
        for rank in range(2)
    ]
    first, _ = [process.communicate(timeout=500)[0] for process in ranks]
    assert [process.returncode for process in ranks] == [0, 0]
    logs = json.loads(first.split("LOGS")[1])
    asked = [prompt[0]["content"] for prompt in logs["prompt"]]
    assert len(asked) == 4  # the last step's: TRL's batch is a group, of which each process holds a half
    assert len(set(asked)) == 1
    assert sum(logs["rewards"]) == pytest.approx(2)
    assert all("beat" in why or "lost" in why or "level" in why for why in logs["judge"])
    steps = [entry for entry in logs["history"] if "reward" in entry]
    assert [entry["judge/failed_groups"] for entry in steps] == [0, 0]
    assert sum(entry["judge/calls"] for entry in steps) == len(endpoint.of_judge) == 2 * 12
