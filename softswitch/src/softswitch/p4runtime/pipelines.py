"""Pipeline configs: the one that P4Runtime is about and the one that runs (P4Runtime 1.4 §14 and §15)."""

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
from softswitch.p4runtime.described import described
from softswitch.p4runtime.journal import Journal
from softswitch.p4runtime.messages import p4r
from softswitch.p4runtime.reconcile import carry_over
from softswitch.p4runtime.status import Refusal, invalid
from softswitch.pipeline import ControlPlane, Notice

log = logging.getLogger(__name__)
SetRequest = p4r.SetForwardingPipelineConfigRequest
GetRequest = p4r.GetForwardingPipelineConfigRequest


class RunnablePipeline(ControlPlane, Protocol):
    """A pipeline that ports can run, and whose notices they hand on as bytes."""

    def decode_notice(self, data: bytes) -> Notice:
        """Decode the notice in a datagram of `Ports.notice_socket`."""
        ...


RUNS = TypeVar("RUNS", contravariant=True)
PL = TypeVar("PL", bound=RunnablePipeline)


MakePipeline = Callable[[Program], PL]
FolderOf = Callable[[PL], Path | None]
"""Where a pipeline's control plane is to be kept; None where it is not."""


class Ports(Protocol[RUNS]):
    """The switch's ports, which run a pipeline of the kind that they can run."""

    @property
    def cpu_socket(self) -> socket.socket:
        """The controller's end of the CPU port: a datagram for each frame, in both directions."""
        ...

    @property
    def notice_socket(self) -> socket.socket:
        """Where the notices of the pipeline that runs come out, a datagram for each."""
        ...

    def now(self) -> int:
        """Return the time that packets are stamped with, in µs since start."""
        ...

    def start(self, pipeline: RUNS) -> None:
        """Begin to forward with a pipeline."""
        ...

    def stop(self) -> None:
        """Stop forwarding."""
        ...


class Pipelines(Generic[PL]):
    """`saved` is what reads and writes are about, `running` what packets meet; a commit makes them one.

    A program that came without P4Info is `bare`: P4Runtime does not know of it.
    """

    def __init__(self, ports: Ports[PL], make: MakePipeline[PL], folder_of: FolderOf[PL]) -> None:
        self._ports = ports
        self._make = make
        self._folder_of = folder_of
        self.saved: ControlledPipeline[PL] | None = None
        self.running: ControlledPipeline[PL] | None = None
        self.bare: ControlledPipeline[PL] | None = None

    @property
    def met(self) -> ControlledPipeline[PL] | None:
        """What packets meet, with or without a P4Info."""
        return self.running or self.bare

    def need_saved(self) -> ControlledPipeline[PL]:
        """Return the pipeline that reads and writes act on; raises `Refusal` if there is none."""
        if self.saved is None:
            raise Refusal(StatusCode.FAILED_PRECONDITION, "no forwarding pipeline config is set")
        return self.saved

    def need_running(self) -> ControlledPipeline[PL]:
        """Return the pipeline that processes packets; raises `Refusal` if there is none."""
        if self.running is None:
            raise Refusal(StatusCode.FAILED_PRECONDITION, "no forwarding pipeline config is committed")
        return self.running

    def load(self, config: p4r.ForwardingPipelineConfig) -> None:
        """Save and commit a config, as VERIFY_AND_COMMIT does; `Refusal` where that fails."""
        self.saved = self._controlled(config)
        self._commit(self.saved)

    def load_bare(self, data: bytes) -> None:
        """Run a program by its BMv2 JSON alone; `SwitchError` where that fails."""
        self.run_bare(self.make_bare(data))

    def make_bare(self, data: bytes) -> ControlledPipeline[PL]:
        """Return the control of a program that has BMv2 JSON, but no P4Info."""
        return self._controlled(_bare(data), p4r.ForwardingPipelineConfig(p4_device_config=data))

    def run_bare(self, control: ControlledPipeline[PL]) -> None:
        """Run a program of `make_bare`; P4Runtime has none then."""
        self._commit(control)
        self.bare, self.saved, self.running = control, None, None

    def go_on(self, kept: Journal, make: MakePipeline[PL]) -> None:
        """Go on with the pipeline that `make` has kept: all that it was told is told again."""
        at: int | None = 0
        config = kept.config()
        is_bare = not config.HasField("p4info")

        def clock() -> int:
            return self._ports.now() if at is None else at

        control = ControlledPipeline(_bare(config.p4_device_config) if is_bare else config, make, clock)
        for at, request in kept.requests():  # noqa: B007  # the clock reads it
            with contextlib.suppress(Refusal):  # as it was then
                control.write(request)
        at = None
        control.keep(kept)
        self._ports.start(control.pipeline)
        if is_bare:
            self.bare = control
        else:
            self.saved = self.running = control

    def set(self, request: SetRequest) -> None:
        """Verify, save or commit a config."""
        action = request.action
        if action == SetRequest.VERIFY:
            self._controlled(request.config)
        elif action == SetRequest.VERIFY_AND_SAVE:
            self.saved = self._controlled(request.config)
        elif action == SetRequest.VERIFY_AND_COMMIT:
            self.load(request.config)
        elif action == SetRequest.COMMIT:
            if request.HasField("config"):
                raise invalid("COMMIT takes no config, it commits the one that was saved")
            if self.saved is None or self.saved is self.running:
                raise Refusal(StatusCode.NOT_FOUND, "no config is saved: VERIFY_AND_SAVE one before COMMIT")
            self._commit(self.saved)
        elif action == SetRequest.RECONCILE_AND_COMMIT:
            self._reconcile(request.config)
        else:
            raise invalid(f"action {action} of SetForwardingPipelineConfig is not known")

    def get(self, request: GetRequest) -> p4r.GetForwardingPipelineConfigResponse:
        """Return the parts of the saved config that a request asks for; none if there is no config."""
        response = p4r.GetForwardingPipelineConfigResponse()
        if self.saved is not None:
            response.config.CopyFrom(self.saved.config)
            if request.response_type in (GetRequest.COOKIE_ONLY, GetRequest.DEVICE_CONFIG_AND_COOKIE):
                response.config.ClearField("p4info")
            if request.response_type in (GetRequest.COOKIE_ONLY, GetRequest.P4INFO_AND_COOKIE):
                response.config.ClearField("p4_device_config")
        return response

    def _controlled(
        self, config: p4r.ForwardingPipelineConfig, given: p4r.ForwardingPipelineConfig | None = None
    ) -> ControlledPipeline[PL]:
        """Return the control of a config; the journal records `given` instead, if it is another."""
        control = ControlledPipeline(config, self._make, self._ports.now)
        if (folder := self._folder_of(control.pipeline)) is not None:
            control.keep(Journal(folder, given or config))
        return control

    def _commit(self, control: ControlledPipeline[PL]) -> None:
        self._ports.stop()
        _drain(self._ports.notice_socket)
        self._ports.start(control.pipeline)
        self.running, self.bare = control, None
        log.info("pipeline committed")

    def _reconcile(self, config: p4r.ForwardingPipelineConfig) -> None:
        """Go over to another config with the state of this one; the same one only brings its cookie."""
        if self.saved is None:
            self.load(config)
            return
        if not self.saved.take_over(config):
            fresh = self._controlled(config)
            if lost := carry_over(self.saved, fresh):
                dropped = pluralize(lost, "entity", "entities")
                log.warning("reconciled: the new pipeline has no room for %s of the old one", dropped)
            self.saved = fresh
        if self.saved is not self.running:
            self._commit(self.saved)


def _bare(data: bytes) -> p4r.ForwardingPipelineConfig:
    return described(data, load_program(data))


def _drain(notices: socket.socket) -> None:
    """Drop the notices of a pipeline that no longer runs: another cannot read them."""
    try:
        while notices.recv(1, socket.MSG_DONTWAIT):
            pass
    except BlockingIOError:
        pass
