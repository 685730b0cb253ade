"""`python -m hotline_scripts.up SETTINGS`: run switch and servers for scripts, until the end is requested.

Standard output gets one line of JSON, with the socket for workers or with an error. The log goes to standard
error.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import logging
import os
import shutil
import signal
import sys
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import polars as pl

from experiment import members
from experiment.errors import PreflightError
from experiment.folder import chown_to_sudo_user
from experiment.liveness import Liveness
from experiment.processes import ProcessLimit
from experiment.run_config import MAX_WORKERS, Config, load_config
from experiment.worker_plan import AfterDeath
from foundation.concurrency import gather_or_cancel, in_thread
from foundation.designs.arms import lead_arm, measured_arms
from foundation.designs.interface import Arm
from foundation.errors import HotlineError
from foundation.limits import WaitLimit
from foundation.logs.columns import UPDATES
from foundation.logs.merge import last_updates
from foundation.logs.parts import atomic_path
from hosts.compiled_agents import CompiledAgents, require_compiled_agents
from hotline_scripts.checkpoints import Checkpoints, Pushes, with_keeper
from hotline_scripts.embedding_tables import EmbeddingTables
from hotline_scripts.joined_worker import JoinedWorker
from hotline_scripts.lines import Message, peer_process, socket_path
from hotline_scripts.rendezvous import (
    REPORTS,
    Rendezvous,
    append_report,
    down_command,
)
from hotline_scripts.script_session import Terms
from hotline_scripts.terms import session_terms, tables_of_design
from softswitch.progress import Activity
from topologies.agents import Agent, supervise
from topologies.cpu_placement import Placement
from topologies.fleet import (
    provision,
    provision_other_switches,
    publish,
    renew_worker,
    server_config,
    set_ranges,
)
from topologies.testbed import ControlledSwitch, TestbedKind, TestbedNetwork, UpTestbed
from topologies.testbed_kinds import testbed_kind

log = logging.getLogger(__name__)

UPDATES_FILE = "updates.parquet"
_SILENCE_S = 30.0
"""Time for which the processes of silent servers may do nothing before the session ends."""


def folder_of(config: Config) -> Path:
    """Return the folder of `up.log`, logs/, and the sessions' reports.jsonl and updates.parquet."""
    return (config.runs / "up").resolve()


def arm_for_scripts(config: Config) -> Arm:
    return lead_arm(config.design) or measured_arms(config.design)[0]


def check(config: Config, kind: TestbedKind) -> None:
    if config.recovery.journal_sync is not None or config.recovery.replay_log:
        raise PreflightError("recovery: workers in scripts keep no replay logs; leave the table out")
    if config.is_lockstep:
        raise PreflightError(
            f"design {config.design}: its workers push together, and scripts do not; "
            "use design `hotset` or `none`"
        )
    kind.check_up(config)
    if config.checkpoint.file is not None:
        _check_checkpoint(config, config.checkpoint.file)


def _check_checkpoint(config: Config, file: Path) -> None:
    if config.machines is not None:
        raise PreflightError("checkpoint.file: expected `hotline up` on one machine; leave `machines` out")
    if config.workers >= MAX_WORKERS:
        raise PreflightError(f"checkpoint.file: expected at most {MAX_WORKERS - 1} workers beside it")
    if not file.suffix == ".npz" or not file.resolve().parent.is_dir():
        raise PreflightError(f"checkpoint.file {file}: expected a file .npz in a folder that exists")


def _compiled_agents() -> CompiledAgents:
    return require_compiled_agents("`hotline up`")


class UpBackend:
    def __init__(self, config: Config, placement: Placement, network: TestbedNetwork) -> None:
        self._config, self._placement, self._network = with_keeper(config), placement, network
        self.size = config.workers
        self._arm = arm_for_scripts(config)
        self._folder = folder_of(config)
        self._has_reports = self._has_warned_of_unset = False
        self._servers: list[Agent] = []
        self._switches = [network.switch, *network.other_switches]
        self._liveness = Liveness(self._folder / "logs" / members.FILE)
        self._processes = self._liveness.processes
        self._failure_tasks: list[asyncio.Task[None]] = []
        self.rendezvous: Rendezvous | None = None
        self._checkpoints: Checkpoints | None = None
        if config.checkpoint.file is not None:
            self._checkpoints = Checkpoints(
                config.checkpoint,
                network.workers[self.size],
                self.size,
                self._folder / "logs",
                self._liveness,
            )

    @property
    def after_death(self) -> AfterDeath:
        return self._config.after_death

    def report(self, report: Message) -> None:
        if not self._has_reports:
            rename_earlier_file(self._folder / REPORTS)
            self._has_reports = True
        append_report(self._folder / REPORTS, report)

    def note_join(self, worker: JoinedWorker) -> None:
        interface = self._network.workers[worker.rank].switch_interface
        if (pid := peer_process(worker.writer)) is not None:
            self._liveness.members.add(f"worker {worker.rank}", pid, interface)

    async def prepare(self) -> None:
        for switch in self._switches:
            self._processes.register(switch.name, switch.activity)
        self._liveness.members.begin(self._config.switch_names or {self._network.address: ""})
        await provision(self._network.address, self._config, self._processes, [self._arm])
        await provision_other_switches(self._config, self._processes, [self._arm])

    async def begin(self, tables: EmbeddingTables) -> Terms:
        tables = tables_of_design(self._config, tables)
        self._has_reports = self._has_warned_of_unset = False
        await self._restart([switch for switch in self._switches if not switch.is_running])
        terms = session_terms(self._config, self._arm)
        try:
            await self._start_servers(tables)
            if self._checkpoints is not None:
                terms = await self._checkpoints.begin(tables, terms, self._read_pushes)
        except BaseException:
            await self._quit_servers(None)
            raise
        failure_waits = [
            *(each.wait_until_failed() for each in self._switches),
            *(each.wait_until_failed() for each in self._servers),
        ]
        self._failure_tasks = [
            asyncio.ensure_future(self._mark_broken_at_failure(wait)) for wait in failure_waits
        ]
        return terms

    async def _publish_all(self, pushes: Pushes) -> Pushes | None:
        """Have the checkpoint's pulls return all pushes; return None if they cannot."""
        try:
            await self.publish()
        except HotlineError as error:
            log.warning("no checkpoint is written at the end of the session: %s", error)
            return None
        return pushes

    def _read_pushes(self) -> Pushes | None:
        if self.rendezvous is None:
            return None
        if (unset := self.rendezvous.unset_tables) and not self._has_warned_of_unset:
            log.warning(
                "no checkpoint is written until kv.init or kv.load has set table %s", ", ".join(unset)
            )
            self._has_warned_of_unset = True
        return self.rendezvous.complete_pushes

    async def end(self, pushes: Pushes | None) -> None:
        for failure_task in self._failure_tasks:
            failure_task.cancel()
        await asyncio.gather(*self._failure_tasks, return_exceptions=True)
        if pushes is not None and self._checkpoints is not None:
            pushes = await self._publish_all(pushes)
        await self._quit_servers(pushes)
        await self._network.fetch_files("updates-*")
        self._save_updates()
        await self._network.remove_fetched_files()
        if not (self.rendezvous and self.rendezvous.end_requested.is_set()):
            await self._restart([self._network.switch])

    async def admit(self, rank: int, epoch: int) -> None:
        await renew_worker(self._network.address, self._config, self._processes, self._arm, rank + 1, epoch)

    def limit_silence(self, servers: Sequence[int]) -> WaitLimit:
        """Begin a wait for servers that do not answer a worker, each by way of the switch."""
        names = {f"ps-{number}" for number in servers}
        silent: list[Agent | ControlledSwitch] = [each for each in self._servers if each.name in names]
        silent += self._switches

        async def read() -> dict[str, Activity]:
            return {each.name: await each.activity() for each in silent}

        return ProcessLimit(_SILENCE_S, f"answer of server {', '.join(map(str, servers))}", read)

    async def publish(self) -> None:
        await publish(self._network.address, self._config, self._processes, self._arm)

    async def _start_servers(self, tables: EmbeddingTables) -> None:
        (self._folder / "parts").mkdir(exist_ok=True)
        for number, host in enumerate(self._network.servers, start=1):
            settings = server_config(
                number, self._config, self._folder, self._placement, tables.space, [self._arm],
                tables.optimisers,
            )  # fmt: skip
            agent = host.make_agent(
                f"ps-{number - 1}", _compiled_agents().server, settings, self._folder / "logs",
                liveness=self._liveness,
            )  # fmt: skip
            self._servers.append(await agent.start())
        await gather_or_cancel(each.ready() for each in self._servers)
        await set_ranges(self._network.address, self._config, self._processes, self._arm, tables.space)

    async def _quit_servers(self, pushes: Pushes | None) -> None:
        if self._checkpoints is not None:
            await self._checkpoints.end(pushes)
        servers, self._servers = self._servers, []
        await asyncio.gather(*(each.quit() for each in servers))

    def _save_updates(self) -> None:
        parts = self._folder / "parts"
        files = last_updates(parts)
        rows = [pl.read_parquet(file, columns=list(UPDATES)) for file in files]
        if rows:
            rename_earlier_file(self._folder / UPDATES_FILE)
            with atomic_path(self._folder / UPDATES_FILE) as partial:
                pl.concat(rows).write_parquet(partial)
        shutil.rmtree(parts, ignore_errors=True)
        chown_to_sudo_user(self._folder)

    async def _restart(self, switches: Sequence[ControlledSwitch]) -> None:
        for switch in switches:
            await switch.end()
            await switch.restart()
            await supervise(switch.wait_until_listening(), [switch.wait_until_failed()])
        if switches:
            await self.prepare()

    async def _mark_broken_at_failure(self, wait: Coroutine[object, None, None]) -> None:
        try:
            await wait
        except HotlineError as error:
            assert self.rendezvous is not None
            self.rendezvous.mark_broken(str(error))


def rename_earlier_file(file: Path) -> None:
    if file.exists():
        number = len(_earlier_files(file)) + 1
        file.rename(file.with_stem(f"{file.stem}-{number}"))


def _earlier_files(file: Path) -> list[Path]:
    return list(file.parent.glob(f"{file.stem}-*{file.suffix}"))


async def serve(config: Config, kind: TestbedKind, socket: Path) -> None:
    async with kind.open_up(with_keeper(config), folder_of(config)) as testbed:
        network = testbed.network
        backend = UpBackend(config, testbed.placement, network)
        await backend.prepare()
        await in_thread(_compiled_agents().warm, config.design)
        rendezvous = backend.rendezvous = Rendezvous(backend, backend.report, backend.note_join)
        for signal_number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(signal_number, rendezvous.end_requested.set)
        async with network.serve_workers(rendezvous, socket):
            _print_json(
                connect=str(socket),
                workers=config.workers,
                job=arm_for_scripts(config).job,
                switch=network.address,
                machines=testbed.ranks,
            )
            end_task = asyncio.ensure_future(_request_end(testbed, rendezvous))
            try:
                await rendezvous.end_requested.wait()
            finally:
                end_task.cancel()
                await asyncio.gather(end_task, return_exceptions=True)
            log.info("shutting down")


async def _request_end(testbed: UpTestbed, rendezvous: Rendezvous) -> None:
    """Request the end of the rendezvous when the testbed fails, or when its own end is requested."""
    try:
        await testbed.wait_for_end()
    except HotlineError as error:
        log.error("%s", error)
        rendezvous.mark_broken(str(error))
    rendezvous.end_requested.set()


@contextmanager
def hold_folder(config: Config) -> Iterator[Path]:
    """Hold the folder, and yield it; raise `PreflightError` if another `hotline up` has its files there."""
    folder = folder_of(config)
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            command = down_command(config.machines)
            raise PreflightError(f"`hotline up` is running in {folder}; `{command}` ends it") from None
        yield folder
    finally:
        os.close(descriptor)


def main(settings: Sequence[str]) -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    logging.getLogger("finsy").setLevel(logging.ERROR)
    # Until the loop handles signals, SIGTERM unwinds the set-up.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    try:
        config = load_config(settings)
        kind = testbed_kind(config)
        check(config, kind)
        with (
            hold_folder(config) as folder,
            kind.reserve_up(with_keeper(config), down_command(config.machines)) as reservation,
        ):
            reservation.set_folder(folder)
            for name in ("logs", "parts"):
                shutil.rmtree(folder / name, ignore_errors=True)
                (folder / name).mkdir(parents=True)
            for name in (REPORTS, UPDATES_FILE):
                for file in (folder / name, *_earlier_files(folder / name)):
                    file.unlink(missing_ok=True)
            asyncio.run(serve(config, kind, socket_path()))
            chown_to_sudo_user(folder)
    except (HotlineError, OSError) as error:
        log.error("%s", error)
        _print_json(error=str(error))
        return 1
    return 0


def _print_json(**line: object) -> None:
    with suppress(OSError):  # the reader has ended
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
