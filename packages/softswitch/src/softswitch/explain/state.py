"""Program and state of a running switch, read over P4Runtime."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import grpc

from softswitch.errors import SwitchError
from softswitch.interpreter import InterpretedPipeline
from softswitch.ir import Program
from softswitch.messages import pluralize
from softswitch.p4runtime.control import ControlledPipeline
from softswitch.p4runtime.messages import client_methods, p4r
from softswitch.p4runtime.reconcile import carry_over
from softswitch.p4runtime.status import Refusal

_LOG = logging.getLogger(__name__)
_TIMEOUT_S = 60.0
_MAX_MESSAGE_BYTES = 128 << 20
_DEFAULTS_REQUEST = p4r.ReadRequest(entities=[p4r.Entity(table_entry=p4r.TableEntry(is_default_action=True))])


# A P4Runtime client, which `carry_over` reads like a `ControlledPipeline`.
class SwitchReader(AbstractContextManager["SwitchReader"]):
    def __init__(self, address: str, device_id: int) -> None:
        self._address, self._device_id = address, device_id
        options = [("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES)]
        self._channel = grpc.insecure_channel(address, options)
        self._methods = client_methods(self._channel)
        self.tables = self  # `carry_over` asks tables for `has_initial_default`
        self._changed_defaults: set[int] = set()  # IDs of tables

    def __exit__(self, *_: object) -> None:
        self._channel.close()

    def config(self) -> p4r.ForwardingPipelineConfig:
        request = p4r.GetForwardingPipelineConfigRequest(device_id=self._device_id)
        try:
            response = self._methods.GetForwardingPipelineConfig(request, timeout=_TIMEOUT_S)
        except grpc.RpcError as error:
            raise self._to_switch_error(error) from None
        config: p4r.ForwardingPipelineConfig = response.config
        if not config.p4_device_config:
            raise SwitchError(f"{self._address}: the switch runs no program yet, or does not disclose it")
        return config

    def copy_to(self, target: ControlledPipeline[InterpretedPipeline]) -> None:
        initial_defaults, _ = target.read(_DEFAULTS_REQUEST)
        current_defaults, _ = self.read(_DEFAULTS_REQUEST)
        initial = dict(_default_by_table(initial_defaults))
        self._changed_defaults = {
            table for table, entry in _default_by_table(current_defaults) if initial.get(table) != entry
        }
        if not_copied := carry_over(self, target):
            _LOG.warning(
                "%s: %s cannot be copied", self._address, pluralize(len(not_copied), "entity", "entities")
            )

    def has_initial_default(self, table_id: int) -> bool:
        return table_id not in self._changed_defaults

    def read(self, request: p4r.ReadRequest) -> tuple[Iterator[p4r.ReadResponse], list[Refusal | None]]:
        """Return the entities that a request selects; kinds that the switch refuses to read are logged."""
        return self._read_entities(request), []

    def _read_entities(self, request: p4r.ReadRequest) -> Iterator[p4r.ReadResponse]:
        for entity in request.entities:
            single = p4r.ReadRequest(device_id=self._device_id, entities=[entity])
            try:
                yield from self._methods.Read(single, timeout=_TIMEOUT_S)
            except grpc.RpcError as error:
                if error.code() is grpc.StatusCode.UNAVAILABLE:
                    raise self._to_switch_error(error) from None
                kind = entity.WhichOneof("entity")
                _LOG.warning("%s: omitting %s, which the switch refuses to read", self._address, kind)

    def _to_switch_error(self, error: Any) -> SwitchError:
        # An RpcError, whose class declares neither `code` nor `details`.
        if error.code() is grpc.StatusCode.UNAVAILABLE:
            return SwitchError(f"{self._address}: no switch answers there; expected P4Runtime without TLS")
        return SwitchError(f"{self._address}: {error.details()}")


def from_switch(
    address: str,
    device_id: int,
    make_pipeline: Callable[[Program], InterpretedPipeline],
    program: bytes | None,
) -> InterpretedPipeline:
    """Return a pipeline with a switch's program and state. Raises SwitchError if `program` is different."""
    with SwitchReader(address, device_id) as switch:
        config = switch.config()
        if program is not None and program != config.p4_device_config:
            raise SwitchError(
                f"{address}: the switch runs another program; omit PROGRAM to use the switch's program"
            )
        try:
            pipeline = ControlledPipeline(config, make_pipeline, clock=lambda: 0)
        except Refusal as error:
            raise SwitchError(f"{address}: cannot load the program that runs there: {error}") from error
        switch.copy_to(pipeline)
        return pipeline.pipeline


def _default_by_table(responses: Iterator[p4r.ReadResponse]) -> Iterator[tuple[int, p4r.TableAction]]:
    for response in responses:
        for entity in response.entities:
            yield entity.table_entry.table_id, entity.table_entry.action
