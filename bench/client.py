"""A P4Runtime client that costs little: requests are encoded before the clock starts."""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

import grpc
from finsy.proto import p4i, p4r, p4r_grpc
from google.protobuf import text_format
from typing_extensions import Self

from bench.errors import BenchError
from bench.workload import Program, Setup

DEVICE = 1
BATCH = 1_000
_IN_FLIGHT = 2  # the switch works on one batch while the next is on its way
_CONNECT_SECONDS = 30.0
_RPC_SECONDS = 60.0
_WRITE = "/p4.v1.P4Runtime/Write"


def encode(updates: Sequence[p4r.Update], size: int = BATCH) -> list[bytes]:
    """Write requests of up to `size` updates each."""
    return [
        p4r.WriteRequest(
            device_id=DEVICE, election_id=p4r.Uint128(low=1), updates=updates[start : start + size]
        ).SerializeToString()
        for start in range(0, len(updates), size)
    ]


class Client:
    """Primary controller of a switch: `with Client(address) as client`. Raises BenchError."""

    def __init__(self, address: str) -> None:
        self._channel = grpc.insecure_channel(address)
        self._stub = p4r_grpc.P4RuntimeStub(self._channel)
        # A stub that takes what `encode` made as it is.
        raw = self._channel.unary_unary(_WRITE, lambda data: data, lambda data: data)
        self._write: Callable[..., grpc.Future[bytes]] = raw.future
        self._requests: queue.Queue[p4r.StreamMessageRequest | None] = queue.Queue()
        self._arbitrated = threading.Event()
        self._reader = threading.Thread(target=self._read_stream)

    def __enter__(self) -> Self:
        try:
            grpc.channel_ready_future(self._channel).result(timeout=_CONNECT_SECONDS)
        except grpc.FutureTimeoutError:
            self._channel.close()
            raise BenchError(f"no P4Runtime server answered within {_CONNECT_SECONDS:.0f} s") from None
        self._reader.start()
        arbitration = p4r.MasterArbitrationUpdate(device_id=DEVICE, election_id=p4r.Uint128(low=1))
        self._requests.put(p4r.StreamMessageRequest(arbitration=arbitration))
        if not self._arbitrated.wait(_RPC_SECONDS):
            raise BenchError("the switch did not answer the arbitration")
        return self

    def __exit__(self, *_: object) -> None:
        self._requests.put(None)
        self._channel.close()
        self._reader.join()

    def set_pipeline(self, program: Program) -> None:
        """Verify and commit a program; its tables are empty then."""
        request = p4r.SetForwardingPipelineConfigRequest(
            device_id=DEVICE, action=p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT
        )
        request.election_id.low = 1
        text_format.Parse(program.p4info.read_text(), request.config.p4info)
        request.config.p4_device_config = program.json.read_bytes()
        self._call(lambda: self._stub.SetForwardingPipelineConfig(request, timeout=_RPC_SECONDS))

    def write(self, requests: Sequence[bytes]) -> float:
        """Send encoded requests, two at a time; returns the seconds until all were answered."""
        begin = time.monotonic()
        waiting: deque[grpc.Future[bytes]] = deque()
        for request in requests:
            if len(waiting) == _IN_FLIGHT:
                self._call(waiting.popleft().result)
            waiting.append(self._write(request, timeout=_RPC_SECONDS))
        for future in waiting:
            self._call(future.result)
        return time.monotonic() - begin

    def install(self, setup: Setup) -> None:
        """Commit a program and insert its entries."""
        self.set_pipeline(setup.program)
        self.write(encode(setup.updates))

    def _call(self, do: Callable[[], object]) -> None:
        try:
            do()
        except grpc.RpcError as error:
            raise BenchError(f"the switch refused: {error}") from error

    def _read_stream(self) -> None:
        try:
            for message in self._stub.StreamChannel(iter(self._requests.get, None)):
                if message.HasField("arbitration"):
                    self._arbitrated.set()
        except grpc.RpcError:  # the switch has gone, or the channel was closed
            pass


def p4info_of(program: Program) -> p4i.P4Info:
    """A program's P4Info."""
    return text_format.Parse(program.p4info.read_text(), p4i.P4Info())
