"""The Thrift port: it serves gRPC beside Thrift, and both to allowed users only."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from softswitch.errors import SwitchError
from softswitch.p4runtime.access import make_policy
from softswitch.runtime.client import connect
from switch_harness.p4runtime import CONTROL
from switch_harness.thrift_clients import ThriftSwitch, serving_thrift
from switch_harness.waiting import PATIENCE_S

TABLE = "ControlIngress.forward"
ALLOWED, NOBODY = 12345, 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to be other users: `make test`")
CALL_BOTH = """
import grpc, json, socket, sys
port = int(sys.argv[1])
name = b"standard:bm_swap_configs"
message = b"\\x80\\x01\\0\\1" + len(name).to_bytes(4, "big") + name + bytes(5)
with socket.create_connection(("127.0.0.1", port), 60) as connection:
    connection.sendall(message)
    thrift = connection.recv(65536).decode(errors="replace")
with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
    try:
        channel.unary_unary("/softswitch.v1.Runtime/info")(b"{}", timeout=60)
        code = "OK"
    except grpc.RpcError as error:
        code = error.code().name
print(json.dumps([thrift, code]))
"""


@pytest.fixture(scope="module")
def switch() -> Iterator[ThriftSwitch]:
    with serving_thrift(CONTROL) as found:
        yield found


def test_thrift_and_grpc_are_served_at_one_port(switch: ThriftSwitch) -> None:
    with connect(f"127.0.0.1:{switch.port}") as over_grpc, switch.connected() as clients:
        over_grpc.table_add(TABLE, ["0x1"], 0, {"action": "ControlIngress.forward_to", "data": ["0x2"]})
        assert clients["standard"].bm_mt_get_num_entries(0, TABLE) == 1
        clients["standard"].bm_mt_clear_entries(0, TABLE, False)
        assert over_grpc.table_size(TABLE) == 0


def test_a_message_of_megabytes_passes_in_both_directions(switch: ThriftSwitch) -> None:
    comment = f"/* {'x' * (4 << 20)} */"
    config = comment + CONTROL.with_suffix(".json").read_text()
    with connect(f"127.0.0.1:{switch.port}") as over_grpc, switch.connected() as clients:
        clients["standard"].bm_load_new_config(config)
        assert over_grpc.config() == clients["standard"].bm_get_config() == config
        over_grpc.reset_state()


def test_a_call_over_thrift_reschedules_notifications(
    switch: ThriftSwitch, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[None] = []
    monkeypatch.setattr(switch.server, "reschedule_notifications", lambda: calls.append(None))
    with switch.connected() as clients:
        clients["standard"].bm_mgmt_get_info()
        clients["standard"].bm_mgmt_get_info()
    assert len(calls) == 2


def test_many_clients_are_served_at_once(switch: ThriftSwitch) -> None:
    with switch.connected() as first, switch.connected() as second:
        assert first["standard"].bm_mt_get_num_entries(0, TABLE) == 0
        assert second["standard"].bm_mt_get_num_entries(0, TABLE) == 0
        assert first["simple_switch"].get_time_elapsed_us() >= 0


def test_a_port_in_use_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with (
            pytest.raises(SwitchError, match=f"cannot listen on {address}: "),
            serving_thrift(CONTROL, address=address),
        ):
            pass


def answers_to(uid: int, switch: ThriftSwitch) -> tuple[str, str]:
    """Return the answers to a call over Thrift, and to one over gRPC, of a process of this user."""
    command = [sys.executable, "-c", CALL_BOTH, str(switch.port)]
    output = subprocess.check_output(command, user=uid, group=uid, extra_groups=[], timeout=PATIENCE_S)
    thrift, grpc_code = json.loads(output)
    return thrift, grpc_code


@needs_root
def test_both_services_are_for_allowed_users_only() -> None:
    """The caller of a forwarded gRPC connection is its client, and not the switch that forwards it."""
    with serving_thrift(CONTROL, make_policy([str(ALLOWED)])) as switch:
        thrift, grpc_code = answers_to(ALLOWED, switch)
        assert (thrift[3], "may not call" in thrift, grpc_code) == ("\2", False, "OK")
        thrift, grpc_code = answers_to(NOBODY, switch)
        assert (thrift[3], grpc_code) == ("\3", "PERMISSION_DENIED")
        assert f"nobody (uid {NOBODY}) may not call this switch" in thrift
    with serving_thrift(CONTROL, make_policy((), is_open=True)) as switch:
        thrift, grpc_code = answers_to(NOBODY, switch)
        assert (thrift[3], grpc_code) == ("\2", "OK")
