"""Pipeline configs: the saved and the running config of P4Runtime (P4Runtime 1.4 §14, §15)."""

from __future__ import annotations

import contextlib
import logging
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Generic

from grpc import StatusCode

from softswitch.load import load_program
from softswitch.messages import pluralize
from softswitch.p4runtime.control import ControlledPipeline
from softswitch.p4runtime.generated_p4info import generate_config
from softswitch.p4runtime.journal import Journal
from softswitch.p4runtime.loaded_config import LoadedConfig
from softswitch.p4runtime.messages import p4r
from softswitch.p4runtime.ports import PL, DatagramSocket, FolderOf, MakePipeline, Ports
from softswitch.p4runtime.reconcile import carry_over
from softswitch.p4runtime.status import Refusal, invalid

log = logging.getLogger(__name__)
NO_CONFIG = "No forwarding pipeline config set for this device"  # BMv2's words, which controllers look for
SetRequest = p4r.SetForwardingPipelineConfigRequest
GetRequest = p4r.GetForwardingPipelineConfigRequest


class Pipelines(Generic[PL]):
    """The pipeline that reads and writes act on (`saved`), and the one that processes packets (`running`).

    A commit makes `saved` the running pipeline. A program without P4Info runs as `bare`, not `running`, and
    is `prepared` before; if `serves_bare`, controllers read and write it, too, with generated P4Info. A
    pipeline that is none of these any more is closed.
    """

    def __init__(
        self,
        ports: Ports[PL],
        make_pipeline: MakePipeline[PL],
        folder_of: FolderOf[PL],
        serves_bare: bool = True,
    ) -> None:
        self._ports = ports
        self._make_pipeline = make_pipeline
        self._folder_of = folder_of
        self._serves_bare = serves_bare
        self.saved: ControlledPipeline[PL] | None = None
        self.running: ControlledPipeline[PL] | None = None
        self.bare: ControlledPipeline[PL] | None = None
        self.prepared: ControlledPipeline[PL] | None = None
        self._down_ports: set[int] = set()

    def close(self) -> None:
        """Stop the ports, and close all pipelines."""
        self._ports.stop()
        with self._closing_replaced():
            self.saved = self.running = self.bare = self.prepared = None

    @property
    def active(self) -> ControlledPipeline[PL] | None:
        return self.running or self.bare

    @property
    def _served(self) -> ControlledPipeline[PL] | None:
        return self.saved or (self.bare if self._serves_bare else None)

    def get_served(self) -> ControlledPipeline[PL]:
        if self._served is None:
            raise Refusal(StatusCode.FAILED_PRECONDITION, NO_CONFIG)
        return self._served

    def get_running(self) -> ControlledPipeline[PL]:
        if self.running is None:
            raise Refusal(StatusCode.FAILED_PRECONDITION, "no forwarding pipeline config is committed")
        return self.running

    def load(self, config: p4r.ForwardingPipelineConfig | LoadedConfig) -> None:
        """Save and commit a config, as VERIFY_AND_COMMIT does; raises `Refusal`."""
        self._save(config)
        self._commit()

    def load_bare(self, data: bytes) -> None:
        self.prepare_bare(data)
        self.run_prepared()

    def prepare_bare(self, data: bytes) -> None:
        journal_config = p4r.ForwardingPipelineConfig(p4_device_config=data)
        with self._closing_replaced():
            self.prepared = self._make_controlled(_bare_config(data), journal_config)

    def discard_prepared(self) -> None:
        with self._closing_replaced():
            self.prepared = None

    def run_prepared(self) -> None:
        """Run the pipeline of `prepare_bare`."""
        assert self.prepared is not None
        self._start(self.prepared)
        with self._closing_replaced():
            self.bare, self.prepared = self.prepared, None
            self.saved = self.running = None

    def set_port_status(self, port: int, is_up: bool) -> None:
        """Take members that watch a port out of their groups while it is down; ports are up by default."""
        if is_up:
            self._down_ports.discard(port)
        else:
            self._down_ports.add(port)
        for control in self._all():
            control.port_changed(port)

    def resume(self, folder: Path, make_pipeline: MakePipeline[PL]) -> None:
        """Run the pipeline that the journal in a folder describes."""
        with contextlib.ExitStack() as on_failure:
            journal = on_failure.enter_context(contextlib.closing(Journal(folder)))
            control, is_bare = self._replay(journal, make_pipeline)
            control.journal_writes(journal)
            on_failure.pop_all()
        if is_bare:
            self.bare = control
        else:
            self.saved = self.running = control
        self._ports.start(control.pipeline)

    def _replay(
        self, journal: Journal, make_pipeline: MakePipeline[PL]
    ) -> tuple[ControlledPipeline[PL], bool]:
        """Return the pipeline with the journal's requests, and whether it has no P4Info."""
        replay_time_us: int | None = 0  # time of the request that is being replayed; None after the replay
        config = journal.config()
        is_bare = not config.HasField("p4info")

        def clock() -> int:
            return self._ports.now() if replay_time_us is None else replay_time_us

        control = ControlledPipeline(
            _bare_config(config.p4_device_config) if is_bare else config,
            make_pipeline,
            clock,
            self._down_ports,
        )
        with contextlib.ExitStack() as on_failure:
            on_failure.callback(control.close)
            for replay_time_us, request in journal.read_requests():  # noqa: B007  # the clock reads it
                with contextlib.suppress(Refusal):  # the request was refused in its first execution, too
                    control.write(request)
            on_failure.pop_all()
        replay_time_us = None
        return control, is_bare

    def set(self, request: SetRequest) -> None:
        action = request.action
        if action == SetRequest.VERIFY:
            self._make_controlled(request.config).close()
        elif action == SetRequest.VERIFY_AND_SAVE:
            self._save(request.config)
        elif action == SetRequest.VERIFY_AND_COMMIT:
            self.load(request.config)
        elif action == SetRequest.COMMIT:
            if request.HasField("config"):
                raise invalid("COMMIT takes no config, it commits the saved config")
            if self.saved is None or self.saved is self.running:
                raise Refusal(StatusCode.NOT_FOUND, "no config is saved: VERIFY_AND_SAVE one before COMMIT")
            self._commit()
        elif action == SetRequest.RECONCILE_AND_COMMIT:
            self._reconcile(request.config)
        else:
            raise invalid(f"action {action} of SetForwardingPipelineConfig is not known")

    def get(self, request: GetRequest) -> p4r.GetForwardingPipelineConfigResponse:
        response = p4r.GetForwardingPipelineConfigResponse()
        if self._served is not None:
            response.config.CopyFrom(self._served.config)
            if request.response_type in (GetRequest.COOKIE_ONLY, GetRequest.DEVICE_CONFIG_AND_COOKIE):
                response.config.ClearField("p4info")
            if request.response_type in (GetRequest.COOKIE_ONLY, GetRequest.P4INFO_AND_COOKIE):
                response.config.ClearField("p4_device_config")
        return response

    def _make_controlled(
        self,
        config: p4r.ForwardingPipelineConfig | LoadedConfig,
        journal_config: p4r.ForwardingPipelineConfig | None = None,
    ) -> ControlledPipeline[PL]:
        """Make the pipeline of a config; its journal, if any, records `journal_config`, or else `config`."""
        control = ControlledPipeline(config, self._make_pipeline, self._ports.now, self._down_ports)
        if (folder := self._folder_of(control.pipeline)) is not None:
            try:
                control.journal_writes(Journal(folder, journal_config or control.config))
            except BaseException:
                control.close()
                raise
        return control

    def _save(self, config: p4r.ForwardingPipelineConfig | LoadedConfig) -> None:
        with self._closing_replaced():
            self.saved = self._make_controlled(config)

    def _commit(self) -> None:
        assert self.saved is not None
        self._start(self.saved)
        with self._closing_replaced():
            self.running, self.bare = self.saved, None

    def _start(self, control: ControlledPipeline[PL]) -> None:
        self._ports.stop()
        _drop_notices(self._ports.notice_socket)
        self._ports.start(control.pipeline)
        log.info("pipeline committed")

    @contextlib.contextmanager
    def _closing_replaced(self) -> Iterator[None]:
        """Close the pipelines that the block has replaced."""
        old_pipelines = self._all()
        yield
        for control in old_pipelines - self._all():
            control.close()

    def _all(self) -> frozenset[ControlledPipeline[PL]]:
        candidates = (self.saved, self.running, self.bare, self.prepared)
        return frozenset(control for control in candidates if control is not None)

    def _reconcile(self, config: p4r.ForwardingPipelineConfig) -> None:
        """Switch to another config and preserve the state; the same config only replaces the cookie."""
        if self.saved is None:
            self.load(config)
            return
        if not self.saved.adopt_config(config):
            new_control = self._make_controlled(config)
            if refusals := carry_over(self.saved, new_control):
                new_control.close()
                entities = pluralize(len(refusals), "entity", "entities")
                raise invalid(
                    f"{entities} cannot be preserved, the first: {refusals[0]}; VERIFY_AND_COMMIT drops them"
                )
            with self._closing_replaced():
                self.saved = new_control
        if self.saved is not self.running:
            self._commit()


def _bare_config(data: bytes) -> LoadedConfig:
    program = load_program(data)
    return LoadedConfig(generate_config(data, program), program)


def _drop_notices(notices: DatagramSocket) -> None:
    """Drop the notices of a pipeline that no longer runs: another pipeline cannot decode them."""
    try:
        while notices.recv(1, socket.MSG_DONTWAIT):  # also drops the rest of the datagram
            pass
    except BlockingIOError:
        pass
