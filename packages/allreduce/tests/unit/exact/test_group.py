"""Workers of `exact` over real sockets, and PyTorch's hook (with the extra `torch`)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from foundation.checkout import ROOT
from hosts.sockets import Address
from hotline_allreduce.dense.client import StalledError
from hotline_allreduce.exact.design import DESIGN, EXACT
from hotline_allreduce.exact.group import ExactGroup
from hotline_allreduce.exact.reference import correctly_rounded_sums
from packages.allreduce.tests.harness.switchml import SwitchUnderTest
from packages.allreduce.tests.harness.udp_switch import free_addresses, serving
from switch_harness.wording import mentions
from tests.harness.extras import needs_torch

WORKERS = 2


def test_groups_add_up_vectors_longer_than_an_operation() -> None:
    rng = np.random.default_rng(1)
    magnitudes = np.exp2(-rng.integers(0, 60, (WORKERS, 700)))
    vectors = (rng.standard_normal((WORKERS, 700)) * magnitudes).astype(np.float32)
    expected = correctly_rounded_sums(list(vectors))
    workers = free_addresses(WORKERS)
    with ExitStack() as stack:
        switch = stack.enter_context(serving(SwitchUnderTest(WORKERS, EXACT, design=DESIGN), workers))
        groups = [
            stack.enter_context(
                ExactGroup(rank, WORKERS, address=workers[rank], switch=switch, max_values=256)
            )
            for rank in range(WORKERS)
        ]

        def add(rank: int) -> list[NDArray[np.float32]]:
            return [groups[rank].all_reduce(vectors[rank]) for _ in range(2)]

        with ThreadPoolExecutor() as pool:
            results = [result for of_rank in pool.map(add, range(WORKERS)) for result in of_rank]
        assert all(result.tobytes() == expected.tobytes() for result in results)
        assert 0 < groups[0].repeated_share == groups[1].repeated_share < 1
        with pytest.raises(ValueError, match=mentions(2, "float64")):
            groups[0].all_reduce(np.ones((2, 2)))  # type: ignore[arg-type]  # what the error is about


def test_a_group_whose_switch_does_not_answer_reports_a_stall() -> None:
    worker, switch = free_addresses(2)
    with pytest.raises(ValueError, match=mentions("rank", 0, 1, 2)):
        ExactGroup(2, WORKERS, address=worker, switch=switch)
    with (
        ExactGroup(0, WORKERS, address=worker, switch=switch, stall_timeout_s=0.05) as group,
        pytest.raises(StalledError, match=mentions("worker 1", 2)),
    ):
        group.all_reduce(np.ones(3, np.float32))


TRAINING = """
import json, sys
import torch
from torch.nn.parallel import DistributedDataParallel
from hotline_allreduce.exact.group import ExactGroup
from hotline_allreduce.exact.torch_hook import exact_hook

rank, store, address, switch = json.loads(sys.argv[1])
torch.set_num_threads(1)
torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
torch.manual_seed(1)
layers = torch.nn.Linear(40, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)
model = DistributedDataParallel(torch.nn.Sequential(*layers))
own = []
with ExactGroup(rank, 2, address=tuple(address), switch=tuple(switch), max_values=1000) as group:
    def hook(group, bucket):
        own.append(bucket.buffer().clone())
        return exact_hook(group, bucket)
    model.register_comm_hook(group, hook)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        torch.manual_seed(10 * step + rank)
        optimiser.zero_grad()
        model(torch.randn(4, 40)).square().mean().backward()
        optimiser.step()
gradients = torch.cat([p.grad.flatten() for p in reversed(list(model.parameters()))])
weights = torch.cat([p.flatten() for p in model.parameters()])
print(json.dumps([own[-1].tolist(), gradients.tolist(), weights.tolist()]))
"""


@needs_torch
def test_ddp_trains_by_the_hook(tmp_path: Path) -> None:
    workers = free_addresses(WORKERS)
    with serving(SwitchUnderTest(WORKERS, EXACT, design=DESIGN), workers) as switch:
        processes = [start(rank, tmp_path / "store", workers[rank], switch) for rank in range(WORKERS)]
        outputs = [process.communicate(timeout=120)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    (one, mean, weights), (other, other_mean, other_weights) = map(json.loads, outputs)
    assert (mean, weights) == (other_mean, other_weights)
    sums = correctly_rounded_sums([np.array(one, np.float32), np.array(other, np.float32)])
    assert sorted(np.array(mean, np.float32)) == sorted(sums / np.float32(WORKERS))


def start(rank: int, store: Path, address: Address, switch: Address) -> subprocess.Popen[str]:
    arguments = json.dumps([rank, str(store), address, switch])
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    return subprocess.Popen(
        [sys.executable, "-c", TRAINING, arguments], stdout=subprocess.PIPE, text=True, env=environment
    )
