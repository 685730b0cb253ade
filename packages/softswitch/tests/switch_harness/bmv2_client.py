"""A controller as the tutorials of P4 have it, as a process: `bmv2_client.py HOST:PORT PROGRAM.json P4INFO`.

It has neither TLS nor roles, uses device 0 and election ID 1, and puts the program into P4DeviceConfig.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from queue import Queue

import grpc
from google.protobuf import text_format

from softswitch.p4runtime.messages import p4i, p4r

SERVICE = "/p4.v1.P4Runtime"
PATIENCE_S = 300


def varint(number: int) -> bytes:
    low, rest = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + varint(rest) if rest else bytes([low])


def device_config(program: bytes) -> bytes:
    return b"\x08\x01\x1a" + varint(len(program)) + program


def main(address: str, program: str, p4info: str) -> None:
    arbitration = p4r.StreamMessageRequest()
    arbitration.arbitration.device_id = 0
    arbitration.arbitration.election_id.low = 1
    request = p4r.SetForwardingPipelineConfigRequest(device_id=0)
    request.election_id.low = 1
    request.action = p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT
    request.config.p4info.CopyFrom(text_format.Parse(Path(p4info).read_text(), p4i.P4Info()))
    request.config.p4_device_config = device_config(Path(program).read_bytes())
    requests: Queue[p4r.StreamMessageRequest | None] = Queue()
    requests.put(arbitration)  # and nothing else: the stream stays open
    with grpc.insecure_channel(address) as channel:
        stream = channel.stream_stream(
            f"{SERVICE}/StreamChannel",
            request_serializer=p4r.StreamMessageRequest.SerializeToString,
            response_deserializer=p4r.StreamMessageResponse.FromString,
        )(iter(requests.get, None))
        assert next(stream).arbitration.status.code == 0
        with suppress(grpc.RpcError):  # p4-utils loads the program only if this call fails
            channel.unary_unary(
                f"{SERVICE}/GetForwardingPipelineConfig",
                request_serializer=p4r.GetForwardingPipelineConfigRequest.SerializeToString,
                response_deserializer=p4r.GetForwardingPipelineConfigResponse.FromString,
            )(p4r.GetForwardingPipelineConfigRequest(), timeout=PATIENCE_S)
            sys.exit("the switch says that it has a program")
        channel.unary_unary(
            f"{SERVICE}/SetForwardingPipelineConfig",
            request_serializer=p4r.SetForwardingPipelineConfigRequest.SerializeToString,
            response_deserializer=p4r.SetForwardingPipelineConfigResponse.FromString,
        )(request, timeout=PATIENCE_S)
        requests.put(None)


if __name__ == "__main__":
    main(*sys.argv[1:])
