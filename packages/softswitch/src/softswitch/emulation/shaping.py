"""Bandwidth, delay and loss of links, as far as this kernel can."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

from softswitch.network.link import LinkOptions
from softswitch.network.network import MAX_FRAME

_BITS_PER_BYTE, _BITS_PER_MBIT, _KBIT_PER_MBIT = 8, 1e6, 1e3
_BURST_S = 0.004  # tbf needs the bytes of a tick of a kernel with HZ=250
_NETEM_FRAMES = 10_000  # that may be under way
_PERCENT = 100


def port_options(port: int, options: LinkOptions) -> Iterator[str]:
    """Yield the options of a switch for a port whose link has a bandwidth: its rate and its queue."""
    if options.mbit is not None:
        yield from ("--port-rate", f"{port}={round(options.mbit * _KBIT_PER_MBIT)}kbit")
        yield from ("--port-queue", f"{port}={options.queue_frames}")


def host_rate_command(interface: str, options: LinkOptions) -> list[str]:
    """Return the command that limits the rate of a host's interface; empty without a bandwidth."""
    if options.mbit is None:
        return []
    burst = max(MAX_FRAME, round(options.mbit * _BITS_PER_MBIT * _BURST_S / _BITS_PER_BYTE))
    rate = f"{round(options.mbit * _KBIT_PER_MBIT)}kbit"
    limit = str(options.queue_frames * MAX_FRAME)
    return [
        *("tc", "qdisc", "add", "dev", interface, "root", "handle", "1:", "tbf"),
        *("rate", rate, "burst", str(burst), "limit", limit),
    ]


def netem_command(interface: str, options: LinkOptions, has_rate: bool) -> list[str]:
    """Return the command that delays and loses what an interface sends; empty without delay and loss."""
    if not options.delay_us and not options.loss:
        return []
    parent = ["parent", "1:1"] if has_rate else ["root"]
    delay = ["delay", f"{round(options.delay_us)}us"] if options.delay_us else []
    loss = ["loss", f"{options.loss * _PERCENT:g}%"] if options.loss else []
    return [
        *("tc", "qdisc", "add", "dev", interface, *parent, "netem"),
        *("limit", str(_NETEM_FRAMES), *delay, *loss),
    ]


def has_netem() -> bool:
    """Return whether this kernel can delay frames; asks it in a namespace that vanishes at once."""
    probe = "tc qdisc add dev lo root netem delay 1us"
    return subprocess.run(["unshare", "--net", "sh", "-c", probe], capture_output=True).returncode == 0


def missing_without_netem(options: LinkOptions) -> str:
    """Return what a link does not have without netem, for a warning; empty if that is nothing."""
    missing = [f"delay of {options.delay_us / 1e3:g} ms"] if options.delay_us else []
    missing += [f"loss of {options.loss * _PERCENT:g} %"] if options.loss else []
    return " and ".join(missing)
