"""Reports on runs of networks, as text and as JSON: pings, flows and links."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from softswitch.messages import pluralize
from softswitch.network.flow import FlowHandle
from softswitch.network.host import Ping
from softswitch.network.link import LinkCounters
from softswitch.network.network import Network

_BITS_PER_BYTE = 8
_NAME_COLUMNS = 18


class SentTraffic(NamedTuple):
    """The traffic of a run: pings by source and destination, and flows by their names."""

    pings: Mapping[tuple[str, str], Ping]
    flows: Mapping[str, FlowHandle]


class LinkDirection(NamedTuple):
    """One direction of a link with its counters and the rate of the frames sent, in Mbit/s.

    `load` is the share of the time in which it was busy, 0 for a link without a bandwidth.
    """

    sender: str
    receiver: str
    counters: LinkCounters
    mbit: float
    load: float


def directions(net: Network) -> Iterator[LinkDirection]:
    elapsed_us = max(net.now_us, 1e-3)
    for link in net.links:
        for sender, receiver in (link.ends, link.ends[::-1]):
            counters = link.counters(sender.node)
            mbit = counters.sent_bytes * _BITS_PER_BYTE / elapsed_us
            load = min(1, counters.busy_us / elapsed_us)
            yield LinkDirection(str(sender), str(receiver), counters, mbit, load)


def describe(net: Network, traffic: SentTraffic) -> list[str]:
    """Return the lines of the report, of at most 80 columns."""
    lines = [
        f"{pluralize(len(net.switches), 'switch', 'switches')}, {pluralize(len(net.hosts), 'host')}, "
        f"{pluralize(len(net.links), 'link')}; {net.now_us / 1e6:g} s of virtual time"
    ]
    if traffic.pings:
        lines += describe_pings(traffic.pings)
    for name, flow in traffic.flows.items():
        lines.append(
            f"{name}: {flow.sent} sent, {flow.received} received, delay {flow.mean_delay_us:.1f} µs "
            f"({flow.min_delay_us:.1f} to {flow.max_delay_us:.1f})"
        )
    lines += [
        "",
        f"{'link':<{2 * _NAME_COLUMNS + 4}} {'frames':>10} {'Mbit/s':>9} {'busy':>6} {'dropped':>8}",
    ]
    for sender, receiver, counters, mbit, load in directions(net):
        if counters.offered:
            name = f"{sender[:_NAME_COLUMNS]} -> {receiver[:_NAME_COLUMNS]}"
            lines.append(
                f"{name:<{2 * _NAME_COLUMNS + 4}} {counters.sent:>10} {mbit:>9.3f} {load:>6.1%} "
                f"{counters.dropped:>8}"
            )
    return lines


def describe_pings(pings: Mapping[tuple[str, str], Ping]) -> Iterator[str]:
    """Yield how many pings were answered, in what times, and those without an answer."""
    received = sum(ping.received for ping in pings.values())
    times = [time for ping in pings.values() for time in ping.round_trips_us.values()]
    summary = f"pings: {received} of {sum(ping.sent for ping in pings.values())} answered"
    yield f"{summary}, in {min(times):.1f} to {max(times):.1f} µs" if times else summary
    unanswered = [f"{a} -> {b}" for (a, b), ping in pings.items() if not ping.received]
    if unanswered:
        shown = _fit(unanswered, 60)
        yield f"no answer: {shown}"


def _fit(words: Sequence[str], columns: int) -> str:
    """Return words up to a width, and how many more there are."""
    shown: list[str] = []
    for word in words:
        if sum(map(len, shown)) + 2 * len(shown) + len(word) > columns:
            return f"{', '.join(shown)} and {len(words) - len(shown)} more"
        shown.append(word)
    return ", ".join(shown)


def pings_as_json(pings: Mapping[tuple[str, str], Ping]) -> list[dict[str, object]]:
    """Return pings as what `json.dumps` takes; round trips are in µs."""
    return [
        {
            "source": a,
            "destination": b,
            "sent": ping.sent,
            "round_trips_us": list(ping.round_trips_us.values()),
        }
        for (a, b), ping in pings.items()
    ]


def as_json(net: Network, traffic: SentTraffic) -> dict[str, object]:
    """Return the report as what `json.dumps` takes; times are in µs."""
    return {
        "time_us": net.now_us,
        "pings": pings_as_json(traffic.pings),
        "flows": [
            {
                "name": name,
                "sent": flow.sent,
                "received": flow.received,
                "received_bytes": flow.received_bytes,
                "mean_delay_us": flow.mean_delay_us if flow.received else None,
            }
            for name, flow in traffic.flows.items()
        ],
        "links": [
            {"sender": sender, "receiver": receiver, "mbit": mbit, "load": load, **counters._asdict()}
            for sender, receiver, counters, mbit, load in directions(net)
        ],
    }
