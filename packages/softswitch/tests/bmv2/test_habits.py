"""What controllers of BMv2 rely on, and softswitch does as BMv2."""

from __future__ import annotations

import grpc
import pytest

from softswitch import processes
from softswitch.conformance.client import P4RuntimeClient
from softswitch.load import load_program
from softswitch.p4runtime.generated_p4info import generate_config
from softswitch.p4runtime.messages import client_methods, p4r
from softswitch.p4runtime.pipelines import NO_CONFIG
from switch_harness import PROGRAMS

pytestmark = pytest.mark.bmv2


def test_bmv2_has_no_config_before_the_first_and_takes_generated_p4info() -> None:
    with processes.bmv2() as switch, grpc.insecure_channel(switch.address) as channel:
        get = p4r.GetForwardingPipelineConfigRequest(device_id=1)
        with pytest.raises(grpc.RpcError) as error:
            client_methods(channel).GetForwardingPipelineConfig(get, timeout=60)
        assert (error.value.code(), error.value.details()) == (grpc.StatusCode.FAILED_PRECONDITION, NO_CONFIG)
        with P4RuntimeClient(switch.address) as client:
            for file in sorted(PROGRAMS.glob("*.json")):
                data = file.read_bytes()
                client.set_pipeline(generate_config(data, load_program(data)))
