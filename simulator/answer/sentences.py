from __future__ import annotations

from collections.abc import Iterator, Sequence

from analysis.metrics import Subject, mentioned_in
from analysis.record import Staleness
from analysis.wording import texts
from foundation.text import pluralize
from simulator.answer.arm_results import ArmResult, Limit, OffloadComparison, Utilization
from simulator.answer.capacity import MAX_ERROR, MIN_GAIN, Check
from simulator.answer.cluster import Cluster
from simulator.answer.devices import DEVICES, Device
from simulator.answer.part import PartCheck
from simulator.answer.sizes import Size
from simulator.answer.uplinks import UplinkGain
from simulator.config import SimulationConfig
from simulator.costs import Hosts

_LIMITS: dict[tuple[Limit, ...], str] = {
    ("servers",): "the servers' cores are the bottleneck",
    ("workers",): "the workers' cores are the bottleneck",
    ("servers", "workers"): "the cores of both are the bottleneck",
    ("waiting",): "no core is the bottleneck, because each worker waits for its answers",
}
_TOLERANCE = 0.03


def headline(sides: OffloadComparison, top_k: int) -> str:
    found = (
        f"{sides.offload.capacity:,.0f} steps/s of all workers, and {sides.baseline.capacity:,.0f} without"
    )
    how = "as much as without" if abs(sides.gain - 1) <= _TOLERANCE else f"{sides.gain:.2f} times as much"
    return f"With {top_k:,} hot keys in the switch this cluster carries {how}: {found}."


def sentences(
    cluster: Cluster,
    config: SimulationConfig,
    keys: float,
    sides: OffloadComparison,
    sizes: Sequence[Size],
    sufficient: Size,
    checks: Sequence[Check],
    part_check: PartCheck | None = None,
    uplinks: Sequence[UplinkGain] = (),
    ages: Staleness | None = None,
) -> Iterator[str]:
    if part_check is not None:
        yield _part(cluster, config, part_check)
    yield _rate(cluster, sides)
    yield from differences(sides)
    yield _utilization("Without the hot set", sides.baseline)
    yield _utilization("With it", sides.offload)
    if ages is not None:
        yield _collection(config, ages)
    yield from _sizes(sizes, sufficient)
    yield _checks(checks)
    yield _data(cluster, keys)
    yield device(config, DEVICES[cluster.switch])
    if uplinks:
        yield _racks(cluster, config)
        yield _uplinks(uplinks)
    yield _costs(cluster.hosts)


def _rate(cluster: Cluster, sides: OffloadComparison) -> str:
    lower, name, other = sides.baseline, "without the hot set", "with it"
    if sides.offload.capacity < sides.baseline.capacity:
        lower, name, other = sides.offload, "with the hot set", "without it"
    what = f"the hot set against none, {pluralize(sides.rounds, 'round')} [95 % interval]"
    at = f"At {sides.rate:,.0f} steps/s of all workers"
    if cluster.rate is None:
        return f"{at}, half of their capacity {name}; {what}:"
    if cluster.rate <= sides.rate:
        return f"{at}; {what}:"
    asked, higher = f"{cluster.rate:,.0f} steps/s", max(sides.offload.capacity, sides.baseline.capacity)
    if cluster.rate <= lower.capacity:
        found = f"At {asked} this cluster is nearly full {name}, where it carries"
    elif cluster.rate <= higher:
        found = f"This cluster does not carry {asked} {name}, though {other}; it carries"
    else:
        found = f"This cluster does not carry {asked}, neither {name} nor {other}; it carries"
    return f"{found} {lower.capacity:,.0f}. {at}, {_percent(sides.rate / lower.capacity)} of that; {what}:"


def differences(sides: OffloadComparison) -> Iterator[str]:
    subjects: tuple[Subject, ...] = ("servers", "workers", "operations")
    for subject in subjects:
        metrics = [metric for metric in mentioned_in("cluster", subject) if metric.name in sides.differences]
        for better in dict.fromkeys(metric.better for metric in metrics):
            changes = [(each, sides.differences[each.name]) for each in metrics if each.better == better]
            tones = {metric.tone(change.sign) for metric, change in changes} - {""}
            yield from texts("cluster_changes", subject, better, list(tones), changes)


def _utilization(name: str, side: ArmResult) -> str:
    return (
        f"{name} the servers' cores are busy {_percent(side.at_rate.servers)} of the time at that rate, the "
        f"workers' {_percent(side.at_rate.workers)}; at the {side.capacity:,.0f} steps/s that it carries "
        f"{_shares(side.at_capacity)}: {_LIMITS[side.at_capacity.limits]}."
    )


def _collection(config: SimulationConfig, ages: Staleness) -> str:
    collection = config.collection
    return (
        f"Servers optimise with {config.optimiser}. With the hot set they collect gradients from the switch, "
        f"to publish values every {collection.staleness_ms:g} ms within "
        f"{_percent(collection.share_of_server)} of their time: half of the values were replaced within "
        f"{ages.p50_ms:.3g} ms, 99 % within {ages.p99_ms:.3g} ms."
    )


def _shares(busy: Utilization) -> str:
    return f"{_percent(busy.servers)} and {_percent(busy.workers)}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _sizes(sizes: Sequence[Size], sufficient: Size) -> Iterator[str]:
    none, largest = sizes[0], sizes[-1]
    if sufficient.capacity <= (1 + MIN_GAIN) * none.capacity:
        yield f"No hot set of up to {largest.top_k:,} keys makes this cluster carry more."
    elif sufficient is largest:
        yield f"A larger hot set pays up to the maximum of {largest.top_k:,} keys."
    else:
        yield (
            f"Beyond {sufficient.top_k:,} keys a larger hot set, of up to {largest.top_k:,} keys, adds less "
            f"than {_percent(MIN_GAIN)}."
        )


def _checks(checks: Sequence[Check]) -> str:
    calculated = "Capacities of sizes that were not simulated are calculated from counts of packets"
    if not checks:
        return f"{calculated}; no other size was simulated to check them."
    found = "; ".join(
        f"{each.calculated:,.0f} steps/s with {each.top_k:,} keys, {each.simulated:,.0f} simulated "
        f"({100 * each.error:+.0f} %)"
        for each in checks
    )
    if checks[-1].has_failed:
        return f"{calculated}, and are estimates, because checks failed: {found}."
    return f"{calculated}, and checked: {found}."


def _data(cluster: Cluster, keys: float) -> str:
    if cluster.data is not None:
        return f"A step has {keys:,.0f} keys on average, those of {cluster.data}."
    return (
        f"A step has {keys:,.0f} keys on average, of built-in data: 900,000 parameters, of which the hottest "
        f"20,000 take {_percent(cluster.skew)} of the updates."
    )


def device(config: SimulationConfig, switch: Device) -> str:
    network = config.network
    mpps = switch.network["switch_mpps"]
    takes = f"{network.switch_us:g} µs for a frame and {mpps:,.0f} million of them a second"
    rate = f"{network.rate_mbit / 1000:g} Gbit/s" if network.rate_mbit else "no limit"
    return (
        "This is simulated: every worker and every server has a core of its own, and the switch is "
        f"{switch.description} that takes {takes}{_passes(switch)}; "
        f"its cables have {rate} and take {network.delay_us:g} µs."
    )


def _passes(switch: Device) -> str:
    if switch.passes == 1:
        return ""
    return (
        f", because an RPC goes through it {switch.passes} times, with {switch.lanes} lanes each time; it "
        f"holds {switch.hot_keys:,} hot keys"
    )


def _racks(cluster: Cluster, config: SimulationConfig) -> str:
    rack = cluster.rack or 1
    racks = -(-cluster.workers // rack)
    uplink = rack * config.network.rate_mbit / cluster.oversubscription
    return (
        f"Workers are in {pluralize(racks, 'rack')} of up to {rack:,}, whose switches only forward, and "
        f"whose uplinks have {uplink / 1000:,.4g} Gbit/s each; servers are at the switch with the hot set, "
        "so offload does not relieve the uplinks."
    )


def _uplinks(uplinks: Sequence[UplinkGain]) -> str:
    first, last = uplinks[0], uplinks[-1]
    free = [each for each in uplinks if each.baseline >= (1 - _TOLERANCE) * first.baseline]
    free = [each for each in free if each.offload >= (1 - _TOLERANCE) * first.offload]
    found = f"By calculation uplinks limit no capacity up to an oversubscription of {_ratio(free[-1])}"
    limited = uplinks[len(free) :]
    if not limited:
        return f"{found}."
    others = [each for each in limited if abs(each.gain / last.gain - 1) > _TOLERANCE]
    gains = [f"{each.gain:.2f} at {_ratio(each)}" for each in others]
    gains.append(f"{last.gain:.2f} from {_ratio(limited[len(others)])} on")
    return f"{found}; the gain is {', '.join(gains)}."


def _ratio(uplink: UplinkGain) -> str:
    return f"{uplink.oversubscription:,.4g}:1"


def _part(cluster: Cluster, config: SimulationConfig, check: PartCheck) -> str:
    share = config.hosts.server_share
    found = (
        f"The simulation has {config.workers:,} of the {cluster.workers:,} workers with {_percent(share)} of "
        f"each server; capacities of the whole cluster are {1 / share:.3g} times those of this part"
    )
    checked = f"{check.workers:,} workers give {check.offload:,.0f} steps/s and {check.baseline:,.0f} without"
    error = f"({100 * check.error:+.0f} %)"
    if abs(check.error) > MAX_ERROR:
        return f"{found}; they are estimates, because {checked} {error}. Latencies are not given."
    return f"{found}; checked: {checked} {error}. Latencies are not given."


def _costs(hosts: Hosts | None) -> str:
    if hosts is not None:
        return "Costs of workers and servers are those of --hosts."
    defaults = Hosts()
    serve_us, lane_ns, send_us = defaults.serve_ns / 1000, defaults.lane_ns, defaults.send_ns / 1000
    return (
        f"Servers and workers are assumed to cost what Hotline's do: a server takes {serve_us:g} µs for an "
        f"RPC, {lane_ns} ns for each of its lanes and {send_us:g} µs to send an answer. Give the costs of "
        "yours with --hosts; hotline fit measures them."
    )
