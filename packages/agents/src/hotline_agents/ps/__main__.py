"""`python -m hotline_agents.ps --config FILE`: a parameter-server process, controlled by JSON lines."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray

from foundation.designs.registry import design
from foundation.errors import HotlineError
from foundation.logs.parts import save_arrays
from foundation.protocol import addressing
from hosts.agent import (
    Commands,
    execute,
    load_config,
    prepare_process,
    print_json,
    run_queue_ns,
    write_when_there_is_room,
)
from hosts.ps_config import DurableConfig, PsConfig
from hosts.sockets import Address, clock_offset
from hotline_agents.designs import agents_of, configure_server
from hotline_agents.ps.durable import DurableFile
from hotline_agents.ps.journal import JOURNAL_BYTES
from hotline_agents.ps.logs import PsLogs
from hotline_agents.ps.rpcs import JOB_COUNTERS
from hotline_agents.ps.server_core import ServerCore
from hotline_agents.ps.server_sockets import ServerSockets
from hotline_agents.ps.service_time import make_service


class PsProcess:
    def __init__(self, config: PsConfig) -> None:
        self._config = config
        self.n_replayed_notes = 0  # number of journal notes that were replayed
        space = config.key_space()
        self.core: ServerCore[Address] = agents_of(design(config.design)).core(
            config.ps,
            config.n_ps,
            space,
            {job.job: job.epoch for job in config.jobs},
            time.monotonic_ns,
            journal_bytes=JOURNAL_BYTES if config.durable else 0,
            has_replay_logs=config.recovery.replay_log,
            tables=config.tables,
            **({} if config.homes == 1 else {"homes": config.homes}),  # most designs allow one
        )
        self.core.server.state.header.n_workers = len(config.workers)
        configure_server(design(config.design), self.core.server.state, config)
        self._durable_file = self._open_durable_file(config.durable) if config.durable else None
        self._sockets: ServerSockets | None = None
        self._logs = PsLogs(
            config.log_dir, config.ps, clock_offset(), config.collector, write_when_there_is_room
        )
        self.done = False

    def _open_durable_file(self, settings: DurableConfig) -> DurableFile:
        config, max_journal_bytes = self._config, round(settings.checkpoint_mb * 2**20)
        durable = DurableFile(settings.file, config.identity(), config.fsync, max_journal_bytes)
        try:
            self.n_replayed_notes = self.core.recover(durable.parts(), durable.notes())
        except BaseException:
            durable.close()
            raise
        return durable

    def sockets(self) -> ServerSockets:
        config = self._config
        self._sockets = ServerSockets(
            self.core,
            config.address,
            service=(config.service.address, config.service.port),
            connected=config.connected_workers,
            service_time=make_service(**config.server.model_dump()),
            on_full_log=self.write_full_logs,
            durable=self._durable_file,
            peers=self._peers(),
            port=design(config.design).server_udp_port,
        )
        return self._sockets

    def _peers(self) -> list[Address]:
        config, run_design = self._config, design(self._config.design)
        servers = config.servers
        if run_design.has_services:
            servers = tuple(addressing.service(ps + 1).address for ps in range(len(servers)))
        return [
            *((server, run_design.server_udp_port) for server in servers),
            *(address for job in config.jobs for address in config.worker_addresses(job)),
        ]

    def handlers(self) -> dict[str, Callable[..., dict[str, object]]]:
        return {"stats": self.stats, "dump": self.dump, "flush": self.flush, "quit": self.quit}

    def stats(self) -> dict[str, object]:
        server = self.core.server
        return {
            "cpu_s": time.process_time(),
            "runqueue_ns": run_queue_ns(),
            "bursts": 0 if self._sockets is None else self._sockets.bursts,
            "waits": resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw,
            "malformed": self.core.malformed,
            "misdirected": server.misdirected,
            "copies": {
                job: ages._asdict()
                for job, store in self.core.stores.items()
                if (ages := store.copy_ages()) is not None
            },
            "durability": {} if self._sockets is None else self._sockets.durability(),
            "jobs": {
                job: {name: int(counters[name]) for name in JOB_COUNTERS}
                for job, counters in server.counters.items()
            },
        }

    def dump(self, file: str) -> dict[str, object]:
        """Write all parameters of this PS's share to an .npz file, for each job."""
        columns: dict[str, NDArray[np.generic]] = {}
        for job, store in self.core.stores.items():
            for name, column in store.contents()._asdict().items():
                columns[f"job{job}_{name}"] = column
        write_when_there_is_room(lambda: save_arrays(Path(file), columns))
        return {}

    def flush(self) -> dict[str, object]:
        """Write the logs so far; return the number of dropped rows."""
        self._logs.settle()
        for connection_records in self.core.server.collect_connection_records():
            self._logs.write_connections(connection_records)
        self._logs.send_updates(self.core.stores)
        return {"dropped_rows": self._logs.dropped_rows}

    def write_full_logs(self) -> None:
        self._logs.write_connections_in_background(self.core.server.take_full_logs())

    def close(self) -> None:
        try:
            self.flush()
        finally:
            self._logs.close()
            if self._durable_file is not None:
                self._durable_file.close()

    def quit(self) -> dict[str, object]:
        self.done = True
        return {}


def serve(process: PsProcess, sockets: ServerSockets, commands: Commands) -> None:
    try:
        while not (process.done or commands.closed):
            line = commands.next()
            if line is None:
                sockets.run_until_command(commands)
            else:
                execute(line, process.handlers())
    finally:
        process.close()


@click.command()
@click.option("--config", "path", type=click.Path(path_type=Path), required=True)
def main(path: Path) -> None:
    """Run a parameter server; commands come as JSON lines on standard input."""
    try:
        config = load_config(path, PsConfig)
        process = PsProcess(config)
        with closing(process.sockets()) as sockets:
            prepare_process(config.cpu)
            print_json(ready=True, **({"recovered": process.n_replayed_notes} if config.durable else {}))
            serve(process, sockets, Commands(sys.stdin.fileno()))
    except (HotlineError, OSError) as error:
        print_json(error=str(error))
        sys.exit(1)


if __name__ == "__main__":
    main()
