from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from foundation.protocol.header import VERSION
from hosts.config import ServiceConfig
from hosts.ps.config import PsConfig, PsJobConfig
from hosts.sockets import Address
from switch_bench.errors import BenchError
from tools.bench.requests import EPOCH, JOB

_ROOT = Path(__file__).parents[2]


@contextmanager
def parameter_server(address: Address, parameters: int, core: int) -> Iterator[int]:
    """Run the only PS of a job on one core until the block ends, without a log; yield its process id."""
    host, port = address
    with tempfile.TemporaryDirectory() as folder:
        config = PsConfig(
            wire=VERSION,
            ps=0,
            address=host,
            log_dir=Path(folder),
            n_ps=1,
            jobs=[PsJobConfig(job=JOB, epoch=EPOCH, connected=False)],
            service=ServiceConfig(address=host, port=port),
            cpu=core,
            parameters=parameters,
        )
        path = Path(folder) / "ps.json"
        path.write_text(config.model_dump_json())
        command = [sys.executable, "-m", "hosts.ps", "--config", str(path)]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=_ROOT
        ) as ps:
            assert ps.stdin is not None and ps.stdout is not None
            try:
                reply = json.loads(ps.stdout.readline() or "{}")
                if not reply.get("ready"):
                    raise BenchError(f"the PS did not start: {reply.get('error', 'no reply')}")
                yield ps.pid
            finally:
                ps.stdin.close()  # the PS then writes its logs and ends
                ps.wait()
