"""Settings of runs on several machines, and those that such runs refuse."""

from __future__ import annotations

import re
from typing import Any

import pytest

from experiment.run_config import Config
from hotline_machines.wiring import endpoint_of, port_of, wire

MACHINES = {"machines": "tls://head:8786", "workers": 2, "servers": 1}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"machines": "head:8786"}, "expected the address of a dask scheduler, tls://HOST:PORT or tcp"),
        ({"machines": "tcp://head"}, "expected the address of a dask scheduler"),
        ({"target": "bmv2"}, "target and machines (tls://head:8786)"),
        ({"codec": "scapy"}, "codec and machines"),
        ({"cli": True}, "cli and machines"),
        ({"pcap": True}, "pcap and machines"),
        ({"placement": {"workers": 1}}, "placement and machines"),
        ({"wiring": {"pins": {"w3": "a"}}}, "wiring.pins: expected hosts w1 to w2 and p1 to p1, got w3"),
        ({"wiring": {"cables": {"switch": ["a", "b"]}}}, "wiring.cables: expected hosts w1 to w2"),
        ({"wiring": {"underlay": "direct"}}, 'with underlay "direct", found none for p1'),
        ({"wiring": {"cables": {"w1": ["a", "b"]}}}, 'wiring.cables and underlay "vxlan"'),
        ({"wiring": {"vni": 2**24}}, "less than or equal to"),
        ({"wiring": {"underlay": "gre"}}, "'vxlan' or 'direct'"),
    ],
    ids=str,
)
def test_settings_that_runs_on_several_machines_cannot_have_are_refused(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        Config.model_validate({**MACHINES, **changes})


def test_without_machines_the_wiring_has_no_effect() -> None:
    assert Config.model_validate({"wiring": {"pins": {"w77": "a"}}}).machines is None


def test_every_host_has_its_own_tunnel_whose_ends_meet() -> None:
    config = Config.model_validate({**MACHINES, "workers": 40, "servers": 20})
    hosts = [f"w{n}" for n in range(1, 41)] + [f"p{n}" for n in range(1, 21)]
    wired = [wire(config, host, "192.0.2.1", "192.0.2.2", is_on_switch=False) for host in hosts]
    ends = [(each.host.tunnel, each.port.tunnel) for each in wired if each.port is not None]
    assert len({end.vni for end, _ in ends if end}) == len({port_of(host, 40) for host in hosts}) == 60
    for host_end, port_end in ends:
        assert host_end is not None and port_end is not None
        assert (host_end.vni, host_end.udp_port) == (port_end.vni, port_end.udp_port)
        assert (host_end.local, host_end.remote) == (port_end.remote, port_end.local)
    assert len({endpoint_of(host).mac for host in hosts}) == 60
