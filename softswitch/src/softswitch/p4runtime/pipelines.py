"""Pipeline configs: the saved and the running config of P4Runtime (P4Runtime 1.4 §14, §15)."""

from __future__ import annotations

import contextlib
import logging
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from grpc import StatusCode

from softswitch.ir import Program
from softswitch.load import load_program
from softswitch.messages import pluralize
from softswitch.p4runtime.control import ControlledPipeline
from softswitch.p4runtime.generated_p4info import generate_config
from softswitch.p4runtime.journal import Journal
from softswitch.p4runtime.loaded_config import LoadedConfig
from softswitch.p4runtime.messages import p4r
from softswitch.p4runtime.reconcile import carry_over
from softswitch.p4runtime.status import Refusal, invalid
from softswitch.pipeline import ControlPlane, Notice

log = logging.getLogger(__name__)
SetRequest = p4r.SetForwardingPipelineConfigRequest
GetRequest = p4r.GetForwardingPipelineConfigRequest


class RunnablePipeline(ControlPlane, Protocol):
    """A pipeline that ports can run, and whose notices they pass on as bytes."""

    def decode_notice(self, data: bytes) -> Notice: ...


PL_contra = TypeVar("PL_contra", contravariant=True)
PL = TypeVar("PL", bound=RunnablePipeline)


MakePipeline = Callable[[Program], PL]
FolderOf = Callable[[PL], Path | None]  # returns the folder of the journal; None for no journal


class Ports(Protocol[PL_contra]):
    @property
    def cpu_socket(self) -> socket.socket:
        """The controller's end of the CPU port: a datagram for each frame, in both directions."""

    @property
    def notice_socket(self) -> socket.socket:
        """Socket from which the notices of the running pipeline are read, one per datagram."""

    def now(self) -> int:
        """Return the time that packets are stamped with, in µs since start."""

    def start(self, pipeline: PL_contra) -> None: ...

    def stop(self) -> None: ...


class Pipelines(Generic[PL]):
    """The pipeline that reads and writes act on (`saved`), and the one that processes packets (`running`).

    A commit makes `saved` the running pipeline. A program without P4Info runs as `bare`, not `running`.
    """

    def __init__(self, ports: Ports[PL], make_pipeline: MakePipeline[PL], folder_of: FolderOf[PL]) -> None:
        self._ports = ports
        self._make_pipeline = make_pipeline
        self._folder_of = folder_of
        self.saved: ControlledPipeline[PL] | None = None
        self.running: ControlledPipeline[PL] | None = None
        self.bare: ControlledPipeline[PL] | None = None
        self._down_ports: set[int] = set()

    @property
    def active(self) -> ControlledPipeline[PL] | None:
        return self.running or self.bare

    def get_saved(self) -> ControlledPipeline[PL]:
        if self.saved is None:
            raise Refusal(StatusCode.FAILED_PRECONDITION, "no forwarding pipeline config is set")
        return self.saved

    def get_running(self) -> ControlledPipeline[PL]:
        if self.running is None:
            raise Refusal(StatusCode.FAILED_PRECONDITION, "no forwarding pipeline config is committed")
        return self.running

    def load(self, config: p4r.ForwardingPipelineConfig) -> None:
        """Save and commit a config, as VERIFY_AND_COMMIT does; raises `Refusal`."""
        self.saved = self._make_controlled(config)
        self._commit(self.saved)

    def load_bare(self, data: bytes) -> None:
        self.run_bare(self.make_bare(data))

    def make_bare(self, data: bytes) -> ControlledPipeline[PL]:
        return self._make_controlled(_bare_config(data), p4r.ForwardingPipelineConfig(p4_device_config=data))

    def run_bare(self, control: ControlledPipeline[PL]) -> None:
        """Run a pipeline of `make_bare`; P4Runtime then has no config."""
        self._commit(control)  # makes it `running`, which the next line undoes
        self.bare, self.saved, self.running = control, None, None

    def set_port_status(self, port: int, is_up: bool) -> None:
        """Take members that watch a port out of their groups while it is down; ports are up by default."""
        if is_up:
            self._down_ports.discard(port)
        else:
            self._down_ports.add(port)
        # A set, because `saved` and `running` may be the same.
        for control in {
            candidate for candidate in (self.saved, self.running, self.bare) if candidate is not None
        }:
            control.port_changed(port)

    def resume(self, journal: Journal, make_pipeline: MakePipeline[PL]) -> None:
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
        for replay_time_us, request in journal.read_requests():  # noqa: B007  # the clock reads it
            with contextlib.suppress(Refusal):  # the request was refused in its first execution, too
                control.write(request)
        replay_time_us = None
        control.journal_writes(journal)
        self._ports.start(control.pipeline)
        if is_bare:
            self.bare = control
        else:
            self.saved = self.running = control

    def set(self, request: SetRequest) -> None:
        action = request.action
        if action == SetRequest.VERIFY:
            self._make_controlled(request.config)
        elif action == SetRequest.VERIFY_AND_SAVE:
            self.saved = self._make_controlled(request.config)
        elif action == SetRequest.VERIFY_AND_COMMIT:
            self.load(request.config)
        elif action == SetRequest.COMMIT:
            if request.HasField("config"):
                raise invalid("COMMIT takes no config, it commits the saved config")
            if self.saved is None or self.saved is self.running:
                raise Refusal(StatusCode.NOT_FOUND, "no config is saved: VERIFY_AND_SAVE one before COMMIT")
            self._commit(self.saved)
        elif action == SetRequest.RECONCILE_AND_COMMIT:
            self._reconcile(request.config)
        else:
            raise invalid(f"action {action} of SetForwardingPipelineConfig is not known")

    def get(self, request: GetRequest) -> p4r.GetForwardingPipelineConfigResponse:
        response = p4r.GetForwardingPipelineConfigResponse()
        if self.saved is not None:
            response.config.CopyFrom(self.saved.config)
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
            control.journal_writes(Journal(folder, journal_config or control.config))
        return control

    def _commit(self, control: ControlledPipeline[PL]) -> None:
        self._ports.stop()
        _drop_notices(self._ports.notice_socket)
        self._ports.start(control.pipeline)
        self.running, self.bare = control, None
        log.info("pipeline committed")

    def _reconcile(self, config: p4r.ForwardingPipelineConfig) -> None:
        """Switch to another config and preserve the state; the same config only replaces the cookie."""
        if self.saved is None:
            self.load(config)
            return
        if not self.saved.adopt_config(config):
            new_control = self._make_controlled(config)
            if refusals := carry_over(self.saved, new_control):
                entities = pluralize(len(refusals), "entity", "entities")
                raise invalid(
                    f"{entities} cannot be preserved, the first: {refusals[0]}; VERIFY_AND_COMMIT drops them"
                )
            self.saved = new_control
        if self.saved is not self.running:
            self._commit(self.saved)


def _bare_config(data: bytes) -> LoadedConfig:
    program = load_program(data)
    return LoadedConfig(generate_config(data, program), program)


def _drop_notices(notices: socket.socket) -> None:
    """Drop the notices of a pipeline that no longer runs: another pipeline cannot decode them."""
    try:
        while notices.recv(1, socket.MSG_DONTWAIT):  # also drops the rest of the datagram
            pass
    except BlockingIOError:
        pass
