"""`python -m hotline_agents.worker --config FILE`: a worker process, controlled by JSON lines."""

from __future__ import annotations

import select
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import click
import numpy as np
import polars as pl
from numpy.typing import NDArray

from foundation.designs.registry import design
from foundation.errors import HotlineError
from foundation.logs.columns import AFTER_ALL_STEPS
from foundation.logs.parts import save_arrays
from foundation.protocol.codec import Caller
from hosts.agent import (
    Commands,
    SignalPipe,
    execute,
    load_config,
    prepare_process,
    print_json,
    run_queue_ns,
    write_when_there_is_room,
)
from hosts.agent_config import AgentConfigError
from hosts.in_flight import InFlight
from hosts.ledger import Ledger
from hosts.model import LogisticRegression, Model, SyntheticGradient
from hosts.replay import ReplayLog, file_name, renew
from hosts.sockets import clock_offset, common_port, open_udp
from hosts.succession import Exchange, Remainder, ledger_file, succeed
from hosts.worker_config import WorkerConfig, WorkerJobConfig
from hosts.workload.trace import Trace
from hotline_agents.designs import agents_of
from hotline_agents.udp import make_udp
from hotline_agents.warm import warm_worker
from hotline_agents.worker.client import BaseClient
from hotline_agents.worker.compiled_loop import operate
from hotline_agents.worker.job_socket import Driver, JobSocket, LoopContext
from hotline_agents.worker.logs import Origin, RpcWriter, WorkerLogs
from hotline_agents.worker.trainer import EmptyCalls, OnePush, Replay, StepSchedule, Trainer

_NO_ROUND = -1  # round of rows that belong to no block


class WorkerJob:
    def __init__(
        self, config: WorkerConfig, job: WorkerJobConfig, trace: Trace, context: LoopContext, stack: ExitStack
    ) -> None:
        self.arm = job.arm
        services = {service.ps: (service.address, service.port) for service in config.services}
        if sorted(services) != list(range(config.n_ps)):
            raise AgentConfigError(f"services: expected PS 0 to {config.n_ps - 1}, got PS {sorted(services)}")
        servers = [services[ps] for ps in range(config.n_ps)]
        source_port = common_port(services.values()) if design(config.design).has_services else None
        sock = stack.enter_context(open_udp((config.address, job.udp_port), source_port=source_port))
        self.remainder: Remainder | None = None
        requests: InFlight | None = None
        if config.has_successors:
            exchange = Exchange(sock, servers, context.commands.fd)
            self.remainder, requests = succeed(config, job, trace.space, exchange)
        self.log: ReplayLog | None = None
        if config.recovery.replay_log:
            path = config.log_dir / file_name(f"worker-{config.number}", job.job)
            self.log = ReplayLog.in_file(
                trace.space, trace.largest_batch, config.switches, path, config.homes
            )
        self.client: BaseClient = agents_of(design(config.design)).client(
            Caller(job.job, config.number, job.epoch),
            config.n_ps,
            trace.space,
            time.monotonic_ns,
            config.window,
            max_keys=trace.largest_batch,
            log=self.log,
        )
        if config.workers:
            self.client.set_worker_count(len(config.workers))
        if config.homes:
            self.client.set_homes(config.homes)
        self.client.set_home_index(config.home_index)
        if requests is not None:
            self.client.map_requests(requests)
        peers = servers + [(host, job.udp_port) for host in config.workers]
        self.socket = JobSocket(sock, peers, context)
        self.ledger = Ledger(
            job.job, job.epoch, trace.space, trace.largest_batch, ledger_file(config, job.job, job.epoch),
            design(config.design).combination,
        )  # fmt: skip


class WorkerProcess:
    def __init__(self, config: WorkerConfig, commands: Commands, stack: ExitStack) -> None:
        signals = stack.enter_context(closing(SignalPipe()))
        udp = make_udp()
        context = LoopContext(udp, commands, signals, operate, self.handle_urgent_commands)
        self._config = config
        self._commands = commands
        self._trace = Trace.load(config.trace)
        if config.number > self._trace.workers:
            raise AgentConfigError(
                f"{config.trace}: expected at least {config.number} workers, got {self._trace.workers}"
            )
        self._jobs = {job.job: WorkerJob(config, job, self._trace, context, stack) for job in config.jobs}
        self._logs = WorkerLogs(
            config.log_dir, config.number, clock_offset(), writing=write_when_there_is_room
        )
        self._rpcs = stack.enter_context(closing(RpcWriter(self._logs.write_rpcs)))
        self._model: Model = SyntheticGradient(config.seed)
        if self._trace.samples is not None:
            self._model = LogisticRegression(
                config.scale, config.learning_rate, config.dim, self._trace.space
            )
        self.done = False

    def handlers(self) -> dict[str, Callable[..., dict[str, object]]]:
        return {
            "hint": self.hint,
            "run": self.run,
            "empty": self.empty,
            "ledger": self.ledger,
            "model": self.model,
            "flush": self.flush,
            "quit": self.quit,
            "renew": self.renew,
            "resume": self.resume,
        }

    def hint(self, job: int, file: str | None, upper: int = 0) -> dict[str, object]:
        """Set the job's hints to the keys of a hot set file, the first ones at level 1; null clears them."""
        client = self._job(job).client
        if file is None:
            client.hint(None)
            return {"keys": 0}
        try:
            keys = pl.read_parquet(file, columns=["key"], glob=False)["key"].to_numpy()
        except (OSError, pl.exceptions.PolarsError) as error:
            raise AgentConfigError(
                f"{file}: cannot be read as a hot set: {str(error).splitlines()[0]}"
            ) from error
        client.hint(keys.astype(np.uint64), upper)
        return {"keys": len(keys)}

    def run(
        self,
        job: int,
        first_step: int,
        steps: int,
        start_ns: int = 0,
        period_ns: int = 0,
        round: int = 0,
        load: float = 0.0,
        discard_ns: int = 0,
        discard_steps: int = AFTER_ALL_STEPS,  # by default, only `discard_ns` ends the warm-up
    ) -> dict[str, object]:
        """Run a block of steps; a `period_ns` of 0 means a closed loop."""
        worker_job = self._job(job)
        block_start_ns = start_ns or time.monotonic_ns()
        trainer = Trainer(
            self._config.number,
            worker_job.client,
            self._trace,
            self._model,
            worker_job.ledger,
            StepSchedule(first_step, steps, block_start_ns, period_ns),
            time.monotonic_ns,
            self._config.worker,
        )
        origin = Origin(
            self._config.number,
            job,
            worker_job.arm,
            round,
            load,
            measured_from=block_start_ns + discard_ns,
            measured_step=first_step + discard_steps,
        )
        answer = self._run_driver(
            trainer, worker_job, origin, lambda: print_json(progress=len(trainer.losses))
        )
        self._logs.write_operations(trainer.operations, origin)
        return {
            "steps": len(trainer.losses),
            "max_lateness_ns": trainer.max_lateness_ns,
            "loss": trainer.loss,
            "updates_sent": trainer.lanes_pushed,
            **answer,
        }

    def empty(self, job: int, count: int, round: int = 0, load: float = 0.0) -> dict[str, object]:
        """Send `count` empty RPCs to the PSs in turn, one at a time."""
        worker_job = self._job(job)
        origin = Origin(self._config.number, job, worker_job.arm, round, load, measured_from=0)
        return self._run_driver(EmptyCalls(worker_job.client, self._config.n_ps, count), worker_job, origin)

    def ledger(self, file: str) -> dict[str, object]:
        """Write the sums of the pushes of each job to an .npz file, for the keys that were pushed."""
        columns: dict[str, NDArray[np.generic]] = {}
        for job, worker_job in self._jobs.items():
            # `sent` sums applied deltas, `unknown` unanswered ones, each applied once or not at all.
            sums = worker_job.ledger.sums()
            positions = np.flatnonzero(sums.sent | sums.unknown)
            columns[f"job{job}_keys"] = self._trace.space.keys(positions)
            columns[f"job{job}_sent"] = sums.sent[positions]
            columns[f"job{job}_unknown"] = sums.unknown[positions]
        write_when_there_is_room(lambda: save_arrays(Path(file), columns))
        return {}

    def model(self, file: str) -> dict[str, object]:
        """Write the parameters of each job to an .npz file, if workers hold them."""
        models = {f"job{job}": worker_job.client.model for job, worker_job in self._jobs.items()}
        columns = {job: model for job, model in models.items() if model is not None}
        write_when_there_is_room(lambda: save_arrays(Path(file), columns))
        return {}

    def flush(self) -> dict[str, object]:
        """Push the updates that are to be replayed; return how many rows of the RPC log were dropped."""
        # A `run` is answered after its rows are written, so only rows of these replays can be pending.
        for job, worker_job in self._jobs.items():
            if worker_job.client.has_unreplayed:
                origin = Origin(
                    self._config.number, job, worker_job.arm, _NO_ROUND, load=0.0, measured_from=0
                )
                self._run_driver(Replay(worker_job.client), worker_job, origin)
        return {"dropped_rows": self._rpcs.dropped}

    def renew(self, epochs: dict[str, int], switch: int, home: int = 0) -> dict[str, object]:
        """Continue after restart number `switch` of a home, with a new epoch for each job."""
        for job, epoch in epochs.items():
            worker_job = self._job(int(job))
            renew(worker_job.client, worker_job.log, epoch, switch, home)
        return {}

    def resume(self) -> dict[str, object]:
        """Push what the killed worker whose rank this one takes had not sent; return the number of rows."""
        rows = 0
        for job, worker_job in self._jobs.items():
            if (remainder := worker_job.remainder) is not None:
                origin = Origin(
                    self._config.number, job, worker_job.arm, _NO_ROUND, load=0.0, measured_from=0
                )
                positions, deltas, push = remainder
                driver = OnePush(worker_job.client, positions, deltas, push.answered)
                self._run_driver(driver, worker_job, origin)
                push.close()
                worker_job.remainder = None
                rows += len(positions)
        return {"rows": rows}

    @property
    def socket_fds(self) -> list[int]:
        return [worker_job.socket.fd for worker_job in self._jobs.values()]

    def drain_between_blocks(self, ready: Sequence[int]) -> None:
        """Answer other workers that still wait for packets of an operation that has ended at this worker."""
        for worker_job in self._jobs.values():
            if worker_job.socket.fd in ready:
                worker_job.socket.drain_between_blocks(worker_job.client)

    def handle_urgent_commands(self) -> None:
        """Execute commands that must not wait for the end of a block or for earlier commands."""
        # Select the lines with this JSON string; `execute` parses them.
        while (line := self._commands.next(word='"renew"')) is not None:
            execute(line, {"renew": self.renew}, is_answered=False)

    def quit(self) -> dict[str, object]:
        self.done = True
        return {}

    def _job(self, job: int) -> WorkerJob:
        if job not in self._jobs:
            raise AgentConfigError(f"expected one of the jobs {sorted(self._jobs)}, got {job}")
        return self._jobs[job]

    def _run_driver(
        self, driver: Driver, worker_job: WorkerJob, origin: Origin, report: Callable[[], None] = lambda: None
    ) -> dict[str, object]:
        client = worker_job.client
        cpu_start_s, run_queue_start_ns = time.thread_time(), run_queue_ns()
        counters_before = client.counters
        self._rpcs.begin(client)
        try:
            worker_job.socket.run(driver, client, report, lambda: self._rpcs.swap(client, origin))
        finally:
            cpu_s = time.thread_time() - cpu_start_s
            self._rpcs.end(client, origin)
        return {
            "cpu_s": cpu_s,
            "runqueue_ns": run_queue_ns() - run_queue_start_ns,
            **{name: count - counters_before[name] for name, count in client.counters.items()},
        }


def serve(worker: WorkerProcess, commands: Commands) -> None:
    while not (worker.done or commands.closed):
        worker.handle_urgent_commands()
        line = commands.next()
        if line is not None:
            execute(line, worker.handlers())
            continue
        ready, _, _ = select.select([commands.fd, *worker.socket_fds], [], [])
        if commands.fd in ready:
            commands.read()
        else:
            worker.drain_between_blocks(ready)


@click.command()
@click.option("--config", "path", type=click.Path(path_type=Path), required=True)
def main(path: Path) -> None:
    """Run a worker; commands come as JSON lines on standard input."""
    try:
        config = load_config(path, WorkerConfig)
        commands = Commands(sys.stdin.fileno())
        with ExitStack() as stack:
            worker = WorkerProcess(config, commands, stack)
            warm_worker(config.design)  # load machine code now, not during the first block
            prepare_process(config.cpu)
            print_json(ready=True)
            serve(worker, commands)
    except (HotlineError, OSError) as error:
        print_json(error=str(error))
        sys.exit(1)


if __name__ == "__main__":
    main()
