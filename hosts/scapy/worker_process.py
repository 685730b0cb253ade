"""`python -m hosts.scapy.worker_process --config FILE`: a worker of Scapy, commanded by JSON lines.

It has the commands, files and logs of a compiled worker's process. `job_socket.ScapyJobSocket` has the loop.
"""

from __future__ import annotations

import gc
import select
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import click
import numpy as np
import polars as pl

from foundation.errors import HotlineError
from foundation.logs.columns import AFTER_ALL_STEPS
from hosts.agent import (
    Commands,
    execute,
    load_config,
    prepare_process,
    print_json,
    run_queue_ns,
)
from hosts.agent_config import AgentConfigError
from hosts.scapy import refusal
from hosts.scapy.job_socket import ScapyJobSocket, clock
from hosts.scapy.ledger import AnsweredRows
from hosts.scapy.logs import LoggedBlock, LoggedOperation, WorkerLog
from hosts.scapy.rows import split_rows
from hosts.scapy.training import LogisticModel, RandomGradient, StepModel
from hosts.sockets import clock_offset
from hosts.succession import Remainder
from hosts.worker_config import WorkerConfig
from hosts.workload.trace import Trace

_REPORT_NS = 500_000_000  # interval of reports on progress


class ScapyWorkerProcess:
    def __init__(self, config: WorkerConfig, commands: Commands, stack: ExitStack) -> None:
        reason = refusal(
            config.codec, config.design, has_optimiser=config.learning_rate is None,
            has_recovery=config.recovery.replay_log,
        )  # fmt: skip
        if reason is not None:
            raise AgentConfigError(reason)
        self._config = config
        self._trace = Trace.load(config.trace)
        if config.number > self._trace.workers:
            raise AgentConfigError(
                f"{config.trace}: expected at least {config.number} workers, got {self._trace.workers}"
            )
        self.jobs = {job.job: ScapyJobSocket(config, job, self._trace, commands) for job in config.jobs}
        for job_socket in self.jobs.values():
            stack.enter_context(job_socket.socket)
        self._log = WorkerLog(config.log_dir, config.number, clock_offset())
        self._model: StepModel = RandomGradient(config.seed)
        if self._trace.samples is not None and config.learning_rate is not None:
            self._model = LogisticModel(config.scale, config.learning_rate, config.dim, self._trace.space)
        self.done = False

    def handlers(self) -> dict[str, Callable[..., dict[str, object]]]:
        return {
            "hint": self.hint,
            "run": self.run,
            "empty": self.empty,
            "flush": self.flush,
            "quit": self.quit,
            "resume": self.resume,
        }

    def hint(self, job: int, file: str | None) -> dict[str, object]:
        """Set the job's hints to the keys of a hot set file; null clears them."""
        hints: set[int] = set()
        if file is not None:
            try:
                hints = set(pl.read_parquet(file, columns=["key"], glob=False)["key"].to_list())
            except (OSError, pl.exceptions.PolarsError) as error:
                raise AgentConfigError(
                    f"{file}: cannot be read as a hot set: {str(error).splitlines()[0]}"
                ) from error
        self._job(job).worker.hints = hints
        return {"keys": len(hints)}

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
        discard_steps: int = AFTER_ALL_STEPS,
    ) -> dict[str, object]:
        """Run a block of steps; a `period_ns` of 0 means a closed loop."""
        job_socket, block_start_ns = self._job(job), start_ns or clock()
        block = LoggedBlock(
            self._config.number, job, job_socket.arm, round, load, measured_from=block_start_ns + discard_ns,
            measured_step=first_step + discard_steps,
        )  # fmt: skip
        losses: list[float] = []
        operations: list[LoggedOperation] = []
        pushed = 0

        def run_block() -> None:
            nonlocal pushed
            report_due = clock() + _REPORT_NS
            for k in range(steps):
                due = block_start_ns + k * period_ns
                loss, n = self._run_step(job_socket, first_step + k, due, period_ns, operations)
                losses.append(loss)
                pushed += n
                if clock() >= report_due:
                    print_json(progress=len(losses))
                    report_due = clock() + _REPORT_NS

        answer = self._measure(job_socket, block, operations, run_block)
        loss = float(np.mean(losses)) if losses else float("nan")
        lateness = [each.start - each.scheduled for each in operations if each.op != "step"]
        return {
            "steps": len(losses),
            "max_lateness_ns": max(lateness, default=0),
            "loss": None if np.isnan(loss) else loss,
            "updates_sent": pushed,
            **answer,
        }

    def _run_step(
        self,
        job_socket: ScapyJobSocket,
        iteration: int,
        due: int,
        period_ns: int,
        operations: list[LoggedOperation],
    ) -> tuple[float, int]:
        """Pull, compute and push; return the loss and the number of pushed values.

        With a period the push is due half a period after the pull, or as soon as possible.
        """
        worker, batch = job_socket.worker, self._trace.batch(self._config.number, iteration)
        keys = self._trace.space.keys(batch.positions).tolist()
        job_socket.run_until(lambda: False, due)
        pull_start = clock()
        pull_due = due if period_ns else pull_start
        job_socket.send(worker.pull(iteration, keys, pull_start))
        job_socket.run_until(lambda: worker.idle)
        pull = LoggedOperation(iteration, "pull", pull_due, pull_start, clock(), worker.rpcs_of_operation)

        compute_end = clock() + self._config.worker.compute_ns
        values = np.array([value for key in keys for value in worker.values[key]], np.uint32)
        deltas, loss = self._model.step(batch, values)
        while clock() < compute_end:
            pass
        job_socket.ledger.open(keys, batch.positions, deltas)
        if period_ns:
            job_socket.run_until(lambda: False, pull_due + period_ns // 2)
        push_start = clock()
        push_due = pull_due + period_ns // 2 if period_ns else push_start
        dims = self._trace.space.dims_at(batch.positions).tolist()
        by_key = dict(zip(keys, split_rows(deltas.tolist(), dims), strict=True))
        job_socket.send(worker.push(iteration, by_key, job_socket.ledger, push_start))
        job_socket.run_until(lambda: worker.idle)
        job_socket.ledger.close()
        push = LoggedOperation(iteration, "push", push_due, push_start, clock(), worker.rpcs_of_operation)
        step = LoggedOperation(iteration, "step", pull_due, pull.start, push.end, pull.rpcs + push.rpcs)
        operations += [pull, push, step]
        return loss, len(deltas)

    def empty(self, job: int, count: int, round: int = 0, load: float = 0.0) -> dict[str, object]:
        """Send `count` empty RPCs to the PSs in turn, one at a time."""
        job_socket = self._job(job)
        worker = job_socket.worker

        def send_all() -> None:
            for k in range(count):
                job_socket.send(worker.send_empty_rpc(k % self._config.n_ps, clock()))
                job_socket.run_until(lambda: worker.idle)

        block = LoggedBlock(self._config.number, job, job_socket.arm, round, load, 0, AFTER_ALL_STEPS)
        return self._measure(job_socket, block, [], send_all)

    def _measure(
        self,
        job_socket: ScapyJobSocket,
        block: LoggedBlock,
        operations: list[LoggedOperation],
        work: Callable[[], None],
    ) -> dict[str, object]:
        """Do the work of a block, and write its logs, also if the process is told to end."""
        cpu_start_s, run_queue_start_ns = time.thread_time(), run_queue_ns()
        counters_before = job_socket.take_counters()
        try:
            work()
        finally:
            cpu_s, waited_ns = time.thread_time() - cpu_start_s, run_queue_ns() - run_queue_start_ns
            self._log.write(job_socket.worker.log, operations, block)
            job_socket.worker.log.clear()
        counters = {name: n - counters_before[name] for name, n in job_socket.take_counters().items()}
        return {"cpu_s": cpu_s, "runqueue_ns": waited_ns, **counters}

    def flush(self) -> dict[str, object]:
        """Return the number of dropped rows of logs: none, as every block writes its rows."""
        return {"dropped_rows": 0}

    def resume(self) -> dict[str, object]:
        """Push what the killed worker whose rank this one takes had not sent; return the number of rows."""
        rows = 0
        for job, job_socket in self.jobs.items():
            if (remainder := job_socket.remainder) is not None:
                block = LoggedBlock(self._config.number, job, job_socket.arm, -1, 0.0, 0, AFTER_ALL_STEPS)
                self._measure(job_socket, block, [], partial(self._push_remainder, job_socket, remainder))
                job_socket.remainder = None
                rows += len(remainder.positions)
        return {"rows": rows}

    def _push_remainder(self, job_socket: ScapyJobSocket, remainder: Remainder) -> None:
        positions, deltas, push = remainder
        keys = self._trace.space.keys(positions).tolist()
        rows = split_rows(deltas.tolist(), self._trace.space.dims_at(positions).tolist())
        by_key = dict(zip(keys, rows, strict=True))
        job_socket.send(job_socket.worker.push(0, by_key, AnsweredRows(keys, push.answered), clock()))
        job_socket.run_until(lambda: job_socket.worker.idle)
        push.close()

    def quit(self) -> dict[str, object]:
        self.done = True
        return {}

    def _job(self, job: int) -> ScapyJobSocket:
        if job not in self.jobs:
            raise AgentConfigError(f"expected one of the jobs {sorted(self.jobs)}, got {job}")
        return self.jobs[job]


def serve(process: ScapyWorkerProcess, commands: Commands) -> None:
    sockets = {each.socket.fileno(): each for each in process.jobs.values()}
    while not (process.done or commands.closed):
        line = commands.next()
        if line is not None:
            execute(line, process.handlers())
            continue
        ready, _, _ = select.select([commands.fd, *sockets], [], [])
        if commands.fd in ready:
            commands.read()
        for fd in set(ready) & set(sockets):
            sockets[fd].receive()  # late copies of answers


@click.command()
@click.option("--config", "path", type=click.Path(path_type=Path), required=True)
def main(path: Path) -> None:
    """Run a worker; commands come as JSON lines on standard input."""
    try:
        config, commands = load_config(path, WorkerConfig), Commands(sys.stdin.fileno())
        with ExitStack() as stack:
            process = ScapyWorkerProcess(config, commands, stack)
            prepare_process(config.cpu)
            gc.enable()  # which is disabled for compiled agents: layers of a packet refer to each other
            print_json(ready=True)
            serve(process, commands)
    except (HotlineError, OSError) as error:
        print_json(error=str(error))
        sys.exit(1)


if __name__ == "__main__":
    main()
