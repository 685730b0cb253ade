from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from analysis.metrics import Subject, metrics_of_subject
from analysis.record import Staleness
from analysis.sentences.answers import device_speed
from analysis.sentences.differences import cluster_changes
from foundation.protocol.header import LANES
from foundation.protocol.leaf_spine import HotSetPlace, LeafSpine
from foundation.protocol.memory import MemoryOfRows
from foundation.text import pluralize, signed
from hotline_answers.cluster_answer.arm_results import ArmResult, Limit, OffloadComparison
from hotline_answers.cluster_answer.cluster import MAX_ERROR, PART_WORKERS, Cluster, PartCheck
from hotline_answers.cluster_answer.dims import DimEffect
from hotline_answers.cluster_answer.hotset import ReadLog
from hotline_answers.cluster_answer.sizes import MIN_GAIN, ComparedSizes, Size
from hotline_answers.cluster_answer.uplinks import UplinkGain
from hotline_simulator.config import SimulationConfig
from hotline_simulator.costs import HostCosts
from hotline_simulator.devices import DEVICES, Device, DeviceName

_LIMITS: dict[tuple[Limit, ...], str] = {
    ("servers",): "the servers' cores are the bottleneck",
    ("workers",): "the workers' cores are the bottleneck",
    ("servers", "workers"): "the cores of both are the bottleneck",
    ("waiting",): "no core is the bottleneck, because each worker waits for its answers",
}
_TOLERANCE = 0.03  # relative difference up to which capacities, or gains, are called equal


def headline(
    comparison: OffloadComparison, size: Size, compute_ms: float = 0.0, short_log_warning: str | None = None
) -> str:
    """Return the gain with the recommended size of the hot set, and with the requested one if they differ."""
    computing = f"compute for {compute_ms:g} ms" if compute_ms else "compute nothing"
    baseline = comparison.baseline.capacity
    capacities = f"{size.capacity:,.0f} steps/s of all workers, and {baseline:,.0f} without"
    text = (
        f"With {size.top_k:,} hot keys in the switch this cluster, whose workers {computing} in a step, "
        f"carries {_gain(size.capacity / baseline)}: {capacities}"
    )
    if size.top_k != comparison.top_k:
        text += f"; with {comparison.top_k:,} hot keys, {_gain(comparison.gain)}"
    return f"{text}." if short_log_warning is None else f"{short_log_warning} {text}."


def rows_sentence(other_dims: Sequence[DimEffect], switch: DeviceName) -> str:
    """Return what rows of other dims would make of an answer for rows of one value."""
    assumed = "No --dim was given, so each key is taken as a row of 1 value"
    if not DEVICES[switch].has_rows:
        return f"{assumed}, the only ones that the program for {switch} serves."
    if not other_dims:
        reason = f"with an optimiser or leaves, other rows are simulated for up to {PART_WORKERS} workers"
        return f"{assumed}; {reason}."
    others = "; ".join(
        f"of {each.dim}, {_gain(each.gain)} with {each.top_k:,} hot keys: {each.offload:,.0f} steps/s, and "
        f"{each.baseline:,.0f} without"
        for each in other_dims
    )
    return f"{assumed}. With rows {others}."


def _gain(gain: float) -> str:
    return "as much as without" if abs(gain - 1) <= _TOLERANCE else f"{gain:.2f} times as much"


def sentences(
    cluster: Cluster,
    config: SimulationConfig,
    keys_per_step: float,
    comparison: OffloadComparison,
    sizes: ComparedSizes,
    part_check: PartCheck | None = None,
    uplinks: Sequence[UplinkGain] = (),
    ages: Staleness | None = None,
    log: ReadLog | None = None,
) -> Iterator[str]:
    if part_check is not None:
        yield _part(cluster, config, part_check)
    yield _rate(cluster, comparison)
    yield from differences(comparison)
    yield _utilization("Without the hot set", comparison.baseline)
    yield _utilization("With it", comparison.offload)
    if ages is not None:
        yield _collection(config, ages)
    yield from _sizes(sizes)
    yield _data(cluster, keys_per_step)
    if log is not None and log.training_steps:
        yield (
            f"Hot keys are chosen from the first {log.training_steps:,} of the log's {log.steps:,} "
            "mini-batches, and scored on the rest."
        )
    yield _rows(cluster, sizes.recommended)
    yield device(config, DEVICES[cluster.switch])
    if config.network.rack is not None:
        yield _racks(cluster, config)
    if (leaves := cluster.network_of_leaves) is not None:
        yield _leaves(leaves, config)
    if uplinks:
        yield _uplinks(uplinks)
    yield _costs(cluster.hosts, cluster.max_dim)


def _rate(cluster: Cluster, comparison: OffloadComparison) -> str:
    limiting_arm, limiting_case, other_case = comparison.baseline, "without the hot set", "with it"
    if comparison.offload.capacity < comparison.baseline.capacity:
        limiting_arm, limiting_case, other_case = comparison.offload, "with the hot set", "without it"
    comparison_title = (
        f"the hot set of {comparison.top_k:,} keys against none, {pluralize(comparison.rounds, 'round')} "
        "[95 % interval]"
    )
    offered_rate = f"At {comparison.rate:,.0f} steps/s of all workers"
    if cluster.rate is None:
        return f"{offered_rate}, half of their capacity {limiting_case}; {comparison_title}:"
    if cluster.rate <= comparison.rate:
        return f"{offered_rate}; {comparison_title}:"
    requested_rate = f"{cluster.rate:,.0f} steps/s"
    if cluster.rate <= limiting_arm.capacity:
        capacity_text = f"At {requested_rate} this cluster is nearly full {limiting_case}, where it carries"
    elif cluster.rate <= max(comparison.offload.capacity, comparison.baseline.capacity):
        capacity_text = (
            f"This cluster does not carry {requested_rate} {limiting_case}, though {other_case}; it carries"
        )
    else:
        capacity_text = (
            f"{requested_rate} are too many for this cluster, with the hot set or without; "
            f"{limiting_case} it carries"
        )
    load = _percent(comparison.rate / limiting_arm.capacity)
    return (
        f"{capacity_text} {limiting_arm.capacity:,.0f}. {offered_rate}, {load} of that; {comparison_title}:"
    )


def differences(comparison: OffloadComparison) -> Iterator[str]:
    subjects: tuple[Subject, ...] = ("servers", "workers", "operations")
    for subject in subjects:
        metrics = [
            metric
            for metric in metrics_of_subject("cluster", subject)
            if metric.name in comparison.differences
        ]
        for better in dict.fromkeys(metric.better for metric in metrics):
            changes = [
                (metric, comparison.differences[metric.name]) for metric in metrics if metric.better == better
            ]
            tones = {metric.tone(change.sign) for metric, change in changes} - {""}
            yield cluster_changes(subject, better, tones, changes)


def _utilization(name: str, result: ArmResult) -> str:
    at_capacity = result.at_capacity
    return (
        f"{name} the servers' cores are busy {_percent(result.at_rate.servers)} of the time at that rate, "
        f"the workers' {_percent(result.at_rate.workers)}; at its capacity, {result.capacity:,.0f} steps/s, "
        f"they are busy {_percent(at_capacity.servers)} and {_percent(at_capacity.workers)}: "
        f"{_LIMITS[at_capacity.limits]}."
    )


def _collection(config: SimulationConfig, ages: Staleness) -> str:
    collection = config.collection
    optimiser = "" if config.optimiser is None else f"Servers optimise with {config.optimiser}. "
    network = config.leaf_spine
    switches = "each leaf" if network is not None and network.is_home_by_worker else "the switch"
    return (
        f"{optimiser}With the hot set servers collect gradients from {switches} "
        f"for up to {_percent(collection.share_of_server)} of their time, to publish values every "
        f"{collection.staleness_ms:g} ms: half of the values were replaced within "
        f"{ages.p50_ms:.3g} ms, 99 % within {ages.p99_ms:.3g} ms."
    )


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _sizes(sizes: ComparedSizes) -> Iterator[str]:
    """Yield what the simulated sizes show; nothing is said of a trend beyond them."""
    best, asked, largest = sizes.best, sizes[sizes.asked], sizes.hot[-1]
    compared = f"Of {pluralize(len(sizes.hot), 'size')} of the hot set that were simulated"
    if len(sizes.hot) > 1:
        compared += f", from {sizes.hot[0].top_k:,} to {largest.top_k:,} keys"
    if not sizes.has_gain:
        yield f"{compared}, none makes this cluster carry {_percent(MIN_GAIN)} more than without a hot set."
        return
    text = f"{compared}, {best.top_k:,} keys carry most: {best.capacity:,.0f} steps/s"
    if sizes.sufficient is largest and len(sizes.hot) > 1:
        next_smaller = sizes.hot[-2]
        gain = largest.capacity / next_smaller.capacity - 1
        text += f", {_percent(gain)} more than {next_smaller.top_k:,}"
    yield f"{text}."
    if sizes.sufficient is not largest:
        yield (
            f"Beyond {sizes.sufficient.top_k:,} keys a larger hot set, of up to {largest.top_k:,} keys, "
            f"adds less than {_percent(MIN_GAIN)}."
        )
    if best.capacity > (1 + MIN_GAIN) * asked.capacity:
        gain = best.capacity / asked.capacity - 1
        yield f"{best.top_k:,} keys carry {_percent(gain)} more than the {asked.top_k:,} asked for."


def _data(cluster: Cluster, keys_per_step: float) -> str:
    if cluster.data is not None:
        return f"A step has {keys_per_step:,.0f} keys on average, those of {cluster.data}."
    return (
        f"A step has {keys_per_step:,.0f} keys on average, of built-in data: 900,000 parameters, of which "
        f"the hottest 20,000 take {_percent(cluster.skew)} of the updates."
    )


def device(config: SimulationConfig, switch: Device) -> str:
    network = config.network
    frame_time_and_rate = device_speed(network.switch_us, switch.network["switch_mpps"])
    bandwidth = f"{network.rate_mbit / 1000:g} Gbit/s" if network.rate_mbit else "no limit"
    return (
        "This is simulated: every worker and every server has a core of its own, and the switch is "
        f"{switch.description} that takes {frame_time_and_rate}{_limits_of_chip(switch)}; "
        f"its cables have {bandwidth} and take {network.delay_us:g} µs."
    )


def _rows(cluster: Cluster, size: Size) -> str:
    memory = MemoryOfRows(size.top_k, size.register_bytes, size.entry_bytes)
    by_table = ", ".join(cluster.dims)
    dims = f"the dims {by_table}" if by_table else pluralize(cluster.dim or 1, "value")
    if of_log := cluster.dims_of_log:
        values = "value" if of_log == (1,) else "values"
        dims = f"{' and '.join(map(str, of_log))} {values}, as a column of the log has them"
    if by_table and cluster.dim is not None:
        dims += f", or else {pluralize(cluster.dim, 'value')}"
    padded = (
        f", padded to {cluster.padded_dim}"
        if not by_table and cluster.padded_dim != (cluster.dim or 1)
        else ""
    )
    return f"Keys name rows of {dims}{padded}; {size.top_k:,} of them take {memory} in the switch."


def _limits_of_chip(switch: Device) -> str:
    if switch.port_gbit is None:
        return ""
    hot = f", of which up to {switch.lanes} may be hot" if switch.cold_lanes else ""
    return (
        f"; with the hot set RPCs have up to {switch.rpc_lanes} keys{hot}, and without it {LANES}; its "
        f"{switch.ports} ports have {switch.port_gbit} Gbit/s, and it holds {switch.hot_rows(1):,} hot keys"
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


PLACES: Mapping[HotSetPlace, str] = {
    "spine": "at the spine",
    "leaves": "at the leaves of the servers",
    "both": "at the spine, and half of the rows at the leaves of the servers",
    "worker-leaves": "at the leaves of the workers",
}


def _leaves(network: LeafSpine, config: SimulationConfig) -> str:
    uplink = network.uplink_mbit(config.network.rate_mbit)
    place, spines = PLACES[network.place], "a spine"
    if network.spines > 1:
        spines = f"each of {network.spines} spines"
        place = "at the spines, by server" if network.place == "spine" else place
    return (
        f"Hosts are at {network.leaves} leaves, up to {network.max_hosts_of_leaf} at each, whose uplinks to "
        f"{spines} have {uplink / 1000:,.4g} Gbit/s; the hot set is {place}, and "
        "without it packets take the shortest way."
    )


def _uplinks(uplinks: Sequence[UplinkGain]) -> str:
    first_uplink, last_uplink = uplinks[0], uplinks[-1]
    uplinks_without_limit = [
        uplink
        for uplink in uplinks
        if uplink.baseline >= (1 - _TOLERANCE) * first_uplink.baseline
        and uplink.offload >= (1 - _TOLERANCE) * first_uplink.offload
    ]
    max_ratio = _ratio(uplinks_without_limit[-1])
    summary = f"By calculation capacities stay the same up to an oversubscription of {max_ratio}"
    # `uplinks` ascends by oversubscription, so uplinks that limit a capacity come last.
    limiting_uplinks = uplinks[len(uplinks_without_limit) :]
    if not limiting_uplinks:
        return f"{summary}."
    # The gain settles, so uplinks with another gain than the last one come first.
    uplinks_before_plateau = [
        uplink for uplink in limiting_uplinks if abs(uplink.gain / last_uplink.gain - 1) > _TOLERANCE
    ]
    gains = [f"{uplink.gain:.2f} at {_ratio(uplink)}" for uplink in uplinks_before_plateau]
    gains.append(f"{last_uplink.gain:.2f} from {_ratio(limiting_uplinks[len(uplinks_before_plateau)])} on")
    return f"{summary}; the gain is {', '.join(gains)}."


def _ratio(uplink: UplinkGain) -> str:
    return f"{uplink.oversubscription:,.4g}:1"


def _part(cluster: Cluster, config: SimulationConfig, check: PartCheck) -> str:
    share = config.hosts.server_share
    part_text = (
        f"The simulation has {config.workers:,} of the {cluster.workers:,} workers with {_percent(share)} of "
        f"each server; capacities of the whole cluster are {1 / share:.3g} times those of this part"
    )
    check_text = (
        f"{check.workers:,} workers give {check.offload:,.0f} steps/s and {check.baseline:,.0f} without"
    )
    error_text = f"({signed(100 * check.error)} %)"
    if abs(check.error) > MAX_ERROR:
        return f"{part_text}; they are estimates, because {check_text} {error_text}. Latencies are not given."
    return f"{part_text}; checked: {check_text} {error_text}. Latencies are not given."


def _costs(hosts: HostCosts | None, max_dim: int) -> str:
    if hosts is not None:
        return "Costs of workers and servers are those of --hosts."
    defaults = HostCosts()
    serve_us, lane_ns, send_us = defaults.serve_ns / 1000, defaults.lane_ns, defaults.send_ns / 1000
    of_values = f", {defaults.value_ns:g} ns for each further value of a row" if max_dim > 1 else ""
    return (
        f"Servers and workers are assumed to cost what Hotline's do: a server takes {serve_us:g} µs for an "
        f"RPC, {lane_ns} ns for each of its lanes{of_values} and {send_us:g} µs to send an answer. "
        "Give the costs of yours with --hosts; hotline probe measures them."
    )
