"""What agents are made of, by their configuration."""

from __future__ import annotations

import os
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hosts.ps.__main__ import PsProcess
from hosts.ps.config import PsConfig
from hosts.worker.__main__ import WorkerJob
from hosts.worker.config import WorkerConfig
from hosts.worker.machine import COMPILED
from hosts.workload.generator import R1, generate
from protocol.header import HOTLINE_PORT

ADDRESS = f"127.87.{os.getpid() % 250}.1"


@pytest.mark.parametrize("codec", ["fast", "scapy"])
def test_a_worker_s_machine_is_compiled_unless_it_is_behind_scapy(tmp_path: Path, codec: str) -> None:
    trace = generate(replace(R1, parameters=1000, hot=10, keys_per_step=15), workers=1, steps=2, seed=1)
    config = WorkerConfig.model_validate(
        {
            "worker": 1,
            "address": ADDRESS,
            "log_dir": str(tmp_path),
            "n_ps": 1,
            "learning_rate": 0.5,
            "trace": str(tmp_path),
            "jobs": [{"job": 1, "arm": "neither", "epoch": 1, "udp_port": 20001}],
            "services": [{"ps": 0, "address": ADDRESS, "port": HOTLINE_PORT}],
            "codec": codec,
        }
    )
    of_none = SimpleNamespace(fd=-1)
    sockets: Any = SimpleNamespace(commands=of_none, signals=of_none)
    with ExitStack() as stack:
        job = WorkerJob(config, config.jobs[0], trace, sockets, stack)
        assert (job.client._machine is COMPILED) is (codec == "fast")


def test_a_ps_writes_its_connection_log_when_a_part_of_it_is_full(tmp_path: Path) -> None:
    config = PsConfig.model_validate(
        {
            "ps": 0,
            "address": ADDRESS,
            "log_dir": str(tmp_path),
            "n_ps": 1,
            "parameters": 1000,
            "jobs": [{"job": 1, "epoch": 1, "connected": False}],
            "service": {"address": ADDRESS, "port": HOTLINE_PORT},
        }
    )
    process = PsProcess(config, 0)
    with closing(process.sockets()) as sockets:
        assert sockets._on_room == process.write_full_logs
    process.close()
