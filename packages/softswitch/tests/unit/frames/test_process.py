"""A switch process with frames over gRPC passes the vectors that are run on BMv2, by the same client."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from softswitch import processes
from softswitch.conformance.bmv2 import Bmv2
from softswitch.conformance.client import P4RuntimeClient
from softswitch.conformance.dataplane import Dataplane
from softswitch.conformance.pairs import Pair
from softswitch.conformance.runner import Outcome, Verdict, run
from softswitch.conformance.targets import Opener
from softswitch.p4runtime.messages import p4r
from switch_harness.stf import PAIRS


@pytest.fixture(scope="module")
def switch() -> Iterator[Opener]:
    options = ("--no-p4", "--dp-grpc-server-addr", "127.0.0.1:0")
    with processes.softswitch(options=options) as process:
        found = re.search(r"frames over gRPC, (\S+)", process.log())
        assert found is not None
        with P4RuntimeClient(process.address) as client, closing(Dataplane(found[1])) as ports:

            @contextmanager
            def opened(config: p4r.ForwardingPipelineConfig) -> Iterator[Bmv2]:
                client.set_pipeline(config)
                ports.wait_until_started()
                yield Bmv2(client, ports, config.p4info)

            yield opened


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.vectors.stem)
def test_vectors_pass_on_a_switch_with_frames_over_grpc(switch: Opener, pair: Pair) -> None:
    assert run(switch, *pair) == Verdict(*pair, Outcome.PASS)
