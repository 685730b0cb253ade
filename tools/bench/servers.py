from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from foundation.protocol.header import VERSION
from foundation.protocol.rows import ONE_VALUE, RowRanges
from hosts.agent_config import ServiceConfig
from hosts.ps_config import PsConfig, PsJobConfig
from hosts.sockets import Address
from switch_bench.errors import BenchError
from tests.harness.agents import Agent
from tools.bench.requests import EPOCH, JOB


@contextmanager
def parameter_server(
    address: Address, parameters: int, core: int, ranges: RowRanges = ONE_VALUE
) -> Iterator[int]:
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
            row_ranges=ranges,
        )
        ps = Agent("hotline_agents.ps", config.model_dump(mode="json"), Path(folder), is_fresh=True)
        try:
            if not ps.first.get("ready"):
                raise BenchError(f"the PS did not start: {ps.first.get('error', 'no reply')}")
            yield ps.process.pid
        finally:
            ps.close()  # the PS then writes its logs and ends
