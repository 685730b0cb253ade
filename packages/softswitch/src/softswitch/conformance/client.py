"""A P4Runtime client that is the primary controller; its errors contain the switch's messages."""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

import grpc
from google.protobuf import text_format

from softswitch.conformance.errors import P4RuntimeError, TargetError
from softswitch.errors import NESTED_TOO_DEEPLY
from softswitch.p4runtime.batch_status import DETAILS_KEY
from softswitch.p4runtime.codecs import values
from softswitch.p4runtime.messages import client_methods, p4i, p4r, rpc_status
from softswitch.p4runtime.parse_errors import describe_parse_error
from softswitch.processes import DEVICE_ID
from softswitch.program_files import SOURCE_SUFFIX, read_program

BATCH = 1_000
"""Updates in one Write: some 60 kB, far below the 4 MB that gRPC accepts."""
RECONNECT_OPTIONS = [("grpc.initial_reconnect_backoff_ms", 50), ("grpc.max_reconnect_backoff_ms", 200)]
"""Channel options: retry the connection to a starting switch after 50 to 200 ms; gRPC's default is 1 s."""
_ELECTION_ID = p4r.Uint128(low=1)
_IN_FLIGHT = 2  # the switch executes one batch while the next is sent
_TIMEOUT_S = 60.0
_WRITE = "/p4.v1.P4Runtime/Write"

R = TypeVar("R")


def read_p4info(program: Path) -> p4i.P4Info:
    """Read NAME.p4info.txtpb (protobuf text), given NAME or NAME.json; raises TargetError."""
    path = program.with_suffix(".p4info.txtpb")
    try:
        return text_format.Parse(path.read_text(), p4i.P4Info())
    except OSError as error:
        raise TargetError(f"{path}: {error.strerror}; p4c-bm2-ss --p4runtime-files writes it") from None
    except text_format.ParseError as error:
        raise TargetError(
            f"{path}: not P4Info in protobuf text format: {describe_parse_error(error)}"
        ) from None
    except RecursionError:
        raise TargetError(f"{path} cannot be parsed: {NESTED_TOO_DEEPLY}") from None


def pipeline_config(
    program: Path, folders: Sequence[Path] = (), definitions: Sequence[tuple[str, str]] = ()
) -> p4r.ForwardingPipelineConfig:
    """Read a program with its P4Info; `folders` and `definitions` are P4 source's. Raises SwitchError."""
    path = program if program.suffix else program.with_suffix(".json")
    if path.suffix == SOURCE_SUFFIX:
        made = read_program(path, (path.parent, *folders), definitions)
        return p4r.ForwardingPipelineConfig(p4info=made.p4info, p4_device_config=made.json)
    try:
        return p4r.ForwardingPipelineConfig(p4info=read_p4info(program), p4_device_config=path.read_bytes())
    except OSError as error:
        raise TargetError(f"{path}: {error.strerror}") from None


def encode_writes(
    updates: Sequence[p4r.Update], size: int = BATCH, device_id: int = DEVICE_ID
) -> list[bytes]:
    return [
        p4r.WriteRequest(
            device_id=device_id, election_id=_ELECTION_ID, updates=updates[start : start + size]
        ).SerializeToString()
        for start in range(0, len(updates), size)
    ]


class P4RuntimeClient:
    """A primary controller; `with` waits until the switch answers. Calls raise P4RuntimeError."""

    def __init__(self, address: str, device_id: int = DEVICE_ID) -> None:
        self._device_id = device_id
        self.packets: queue.SimpleQueue[p4r.PacketIn] = queue.SimpleQueue()
        self._channel = grpc.insecure_channel(address, RECONNECT_OPTIONS)
        self._stub = client_methods(self._channel)
        # A stub for requests that `encode_writes` has serialized.
        write_method = self._channel.unary_unary(_WRITE, lambda data: data, lambda data: data)
        self._write: Callable[..., grpc.Future[bytes]] = write_method.future
        self._requests: queue.SimpleQueue[p4r.StreamMessageRequest | None] = queue.SimpleQueue()
        self._is_primary = threading.Event()
        self._reader = threading.Thread(target=self._read_stream)

    def __enter__(self) -> P4RuntimeClient:
        try:
            self._wait_until_ready()
            self._reader.start()
            arbitration = p4r.MasterArbitrationUpdate(device_id=self._device_id, election_id=_ELECTION_ID)
            self._requests.put(p4r.StreamMessageRequest(arbitration=arbitration))
            if not self._is_primary.wait(_TIMEOUT_S):
                raise P4RuntimeError(f"no answer to the arbitration within {_TIMEOUT_S:.0f} s")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._requests.put(None)
        self._channel.close()
        if self._reader.is_alive():
            self._reader.join()

    def _wait_until_ready(self) -> None:
        """Wait for the answer to a call: a channel that lost its connection reconnects only for a call."""
        deadline = time.monotonic() + _TIMEOUT_S
        while True:
            remaining = deadline - time.monotonic()
            try:
                self._stub.Capabilities(p4r.CapabilitiesRequest(), timeout=remaining, wait_for_ready=True)
                return
            except grpc.RpcError as error:
                assert isinstance(error, grpc.Call)
                if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                    raise P4RuntimeError(f"no answer over P4Runtime within {_TIMEOUT_S:.0f} s") from None
                if error.code() is not grpc.StatusCode.UNAVAILABLE:
                    return  # an error is an answer, too

    def _read_stream(self) -> None:
        try:
            for message in self._stub.StreamChannel(iter(self._requests.get, None)):
                if message.HasField("packet"):
                    self.packets.put(message.packet)
                elif message.HasField("arbitration"):
                    self._is_primary.set()
        except grpc.RpcError:
            pass  # the switch has ended; every other call reports it

    def set_pipeline(self, config: p4r.ForwardingPipelineConfig) -> None:
        request = p4r.SetForwardingPipelineConfigRequest(
            device_id=self._device_id,
            election_id=_ELECTION_ID,
            action=p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT,
            config=config,
        )
        _call_rpc(lambda: self._stub.SetForwardingPipelineConfig(request, timeout=_TIMEOUT_S))

    def write(self, *updates: p4r.Update) -> None:
        """Apply updates in order; raise the error of the first update that the switch refused."""
        self.send(encode_writes(updates, device_id=self._device_id))

    def send(self, requests: Iterable[bytes]) -> None:
        in_flight: deque[grpc.Future[bytes]] = deque()
        for request in requests:
            if len(in_flight) == _IN_FLIGHT:
                _call_rpc(in_flight.popleft().result)
            in_flight.append(self._write(request, timeout=_TIMEOUT_S))
        for future in in_flight:
            _call_rpc(future.result)

    def read(self, *queries: p4r.Entity) -> list[p4r.Entity]:
        request = p4r.ReadRequest(device_id=self._device_id, entities=queries)
        answers = _call_rpc(lambda: list(self._stub.Read(request, timeout=_TIMEOUT_S)))
        return [entity for answer in answers for entity in answer.entities]

    def packet_out(self, payload: bytes, *metadata: int) -> None:
        """Send a packet; `metadata` has the values of the `packet_out` header's fields, in order."""
        packet = p4r.PacketOut(payload=payload)
        for number, value in enumerate(metadata, start=1):
            packet.metadata.add(metadata_id=number, value=values.encode(value))
        self._requests.put(p4r.StreamMessageRequest(packet=packet))


def _call_rpc(rpc: Callable[[], R]) -> R:
    try:
        return rpc()
    except grpc.RpcError as error:
        raise to_p4runtime_error(error) from None


def to_p4runtime_error(error: grpc.RpcError) -> P4RuntimeError:
    """Return the first error in a call's details (P4Runtime 1.4 §12.3), or else the call's own status."""
    assert isinstance(error, grpc.Call)
    for key, value in error.trailing_metadata() or ():
        if key == DETAILS_KEY:
            for detail in rpc_status.Status.FromString(value).details:
                first_error = p4r.Error()
                if detail.Unpack(first_error) and first_error.canonical_code:
                    reason = f"code {first_error.canonical_code}: {first_error.message or 'no message'}"
                    return P4RuntimeError(reason, first_error.canonical_code)
    code: int = error.code().value[0]
    return P4RuntimeError(f"{error.code().name}: {error.details() or 'no message'}", code)
