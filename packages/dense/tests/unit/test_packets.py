"""Simulated rings against calculations by hand, the formula, and the α-β model."""

from __future__ import annotations

import json
from dataclasses import replace
from math import ceil

import numpy as np
import pytest

from hotline_dense.alpha_beta import AlphaBetaModel
from hotline_dense.catalogue import open_model
from hotline_dense.layers import Layers
from hotline_dense.network import DenseNetwork, addition_us
from hotline_dense.packets import (
    GOODPUT_SHARE,
    MTU,
    NODES,
    PAYLOAD,
    compare_with_formula,
    compare_with_model,
    link_of,
    simulate_rings,
)
from hotline_dense.schedulers import asc_wfbp, best, fixed_buffers, mg_wfbp, wfbp
from hotline_dense.whatif import PAPER_FUSION
from tests.harness.cli import invoke

FULL_US = 1538 * 8 / 10_000
"""A full frame on a link of 10 Gbit/s: 1,514 bytes, preamble, checksum and gap."""


def end_times(
    sizes: list[int],
    ready: list[float],
    workers: int,
    startup_us: float = 0,
    delay_us: float = 0,
    includes_additions: bool = False,
) -> list[float]:
    found = simulate_rings(
        np.array(sizes), np.array(ready), workers, 10.0, startup_us, 1, delay_us, includes_additions
    ).end_times
    return [float(end) for end in found]


def sharing_of(network: AlphaBetaModel, size: int, at_once: int) -> float:
    """Measure f(k): the slow-down of the bytes of k simultaneous all-reduces of `size` bytes."""
    gbit, startup_us = link_of(network)
    sizes = np.full(at_once, size, np.int64)
    result = simulate_rings(
        sizes, np.zeros(at_once), NODES, gbit, startup_us, at_once, includes_additions=False
    )
    return (result.end_us - network.alpha_us) / (network.beta_us * size)


def test_a_frame_carries_1472_bytes_of_payload() -> None:
    assert (MTU, PAYLOAD, round(GOODPUT_SHARE, 4)) == (1500, 1472, 0.9571)


@pytest.mark.soak
def test_a_ring_of_one_frame_a_step_takes_the_time_worked_out_by_hand() -> None:
    """Four hosts take six steps of two links each; each cable adds its delay, each step its start-up time."""
    assert end_times([4 * PAYLOAD], [5.0], 4) == pytest.approx([5 + 6 * 2 * FULL_US], abs=0.02)
    late = end_times([4 * PAYLOAD], [5.0], 4, delay_us=50, startup_us=100)
    assert late == pytest.approx([5 + 6 * (2 * FULL_US + 100 + 100)], abs=0.02)


def test_frames_of_a_step_are_pipelined() -> None:
    """A step has ten frames, the last one with 1 byte of gradients. The switch stores and forwards."""
    part = 9 * PAYLOAD + 1
    last = (42 + 1 + 24) * 8 / 10_000
    step = 9 * FULL_US + 2 * last + (FULL_US - last)
    assert end_times([4 * part], [0.0], 4) == pytest.approx([6 * step], rel=0.005)


def test_additions_are_in_half_of_the_steps() -> None:
    size = 40 * PAYLOAD
    more = end_times([size], [0.0], 4, includes_additions=True)[0] - end_times([size], [0.0], 4)[0]
    assert more == pytest.approx(3 * float(addition_us(size / 4)), abs=0.01)


def test_buffers_wait_for_each_other_and_for_their_gradients() -> None:
    alone = end_times([400_000], [0.0], 4)[0]
    assert end_times([400_000] * 2, [0.0, 0.0], 4) == pytest.approx([alone, 2 * alone], rel=1e-3)
    assert end_times([400_000] * 2, [0.0, 9999.0], 4) == pytest.approx([alone, 9999 + alone], rel=1e-3)


def test_nothing_is_sent_twice_and_no_queue_grows() -> None:
    carried = simulate_rings(np.array([400_000, 80_000]), np.zeros(2), 4, 10.0, at_once=2)
    assert carried.frames == 4 * 6 * sum(ceil(size / 4 / PAYLOAD) for size in (400_000, 80_000))
    assert carried.longest_queue <= 1514


def test_two_all_reduces_at_once_share_a_link_fairly_and_hide_start_ups() -> None:
    """f(2) = 1.5 was measured where one all-reduce does not fill a link; here it does."""
    net = AlphaBetaModel()
    assert [sharing_of(net, 2_000_000, k) for k in (1, 2, 3)] == pytest.approx([1, 2, 3], rel=0.02)
    gbit, startup_us = link_of(net)
    size = 2_000_000
    sizes, ready = np.full(2, size), np.zeros(2)
    both, after = (
        simulate_rings(sizes, ready, 8, gbit, startup_us, at_once, includes_additions=False).end_us
        for at_once in (2, 1)
    )
    assert after == pytest.approx(2 * net.uncontended_us(size), rel=0.01)
    assert after - both == pytest.approx(net.alpha_us, rel=0.1)


@pytest.mark.parametrize(
    ("workers", "formula_ms", "with_headers_ms", "packets_ms", "frames"),
    [
        (4, 128.8, 134.3, 134.3, 416_808),
        pytest.param(8, 149.7, 156.1, 156.3, 972_944, marks=pytest.mark.soak),
        pytest.param(16, 160.7, 167.6, 168.0, 2_085_600, marks=pytest.mark.soak),
    ],
)
def test_formula_and_packets_are_within_3_percent(
    workers: int, formula_ms: float, with_headers_ms: float, packets_ms: float, frames: int
) -> None:
    """ResNet-50's buffers at 10 Gbit/s; headers, which the formula includes, are 4.5 % of a link."""
    (found,) = compare_with_formula(open_model("resnet50"), DenseNetwork(gbit=10), PAPER_FUSION, [workers])
    assert abs(found.deviation) < 0.03
    assert 0.03 < found.packets_ms / found.formula_ms - 1 < 0.06
    assert found.longest_queue <= 1514
    times = (found.formula_ms, found.with_headers_ms, found.packets_ms)
    assert times == pytest.approx((formula_ms, with_headers_ms, packets_ms), abs=0.05)
    assert found.frames == frames


def test_compressed_gradients_take_fewer_frames_and_as_many_additions() -> None:
    """Formula and frames agree with compression, and with start-up times."""
    network = DenseNetwork(gbit=10, compression=4, startup_us=100)
    (found,) = compare_with_formula(open_model("resnet50"), network, PAPER_FUSION, [4])
    (plain,) = compare_with_formula(open_model("resnet50"), DenseNetwork(gbit=10), PAPER_FUSION, [4])
    assert found.frames == pytest.approx(plain.frames / 4, rel=0.001)
    assert found.packets_ms < plain.packets_ms and abs(found.deviation) < 0.03
    sizes, ready = np.array([400_000]), np.zeros(1)
    at_once = simulate_rings(sizes, ready, 4, 1e3, compression=1000).end_us
    assert at_once == pytest.approx(3 * float(addition_us(100_000)), rel=0.01)


@pytest.mark.soak
def test_the_alpha_beta_model_deviates_from_packets_only_for_two_all_reduces_at_once() -> None:
    """One at a time they agree; two at once the model has f(2) = 1.5, and packets 2 (the README)."""
    model, net = open_model("resnet50"), AlphaBetaModel()
    model = replace(model, layers=model.layers.by_module())
    schedules = [each(model.layers, net) for each in (mg_wfbp, asc_wfbp, best)]
    serial, asc, beam = compare_with_model(model, net, schedules)
    assert abs(serial.deviation) < 0.005
    for found in compare_with_model(model, net, [each(model.layers, net) for each in (wfbp, fixed_buffers)]):
        assert abs(found.deviation) < 0.005
    assert (asc.deviation, beam.deviation) == pytest.approx((0.14, 0.31), abs=0.006)
    fair = net.model_copy(update={"sharing": 1.0})
    (found,) = compare_with_model(model, fair, [asc_wfbp(model.layers, fair)])
    assert abs(found.deviation) < 0.03


def test_commands_compare_with_packets(tmp_path: object) -> None:
    path = f"{tmp_path}/mine.csv"
    with open(path, "w") as file:
        file.write("layer,bytes,backward_us,forward_us\nin,80000,200,100\nout,40000,100,50\n")
    result = invoke("dense", "whatif", path, "--packets", "--json")
    found = json.loads(result.stdout)["packets"]
    assert [each["workers"] for each in found] == [4, 8, 16]
    assert all(each["packets_ms"] > each["formula_ms"] for each in found)
    rows = [line.split() for line in invoke("dense", "whatif", path, "--packets").stdout.splitlines()]
    for each in found:
        times = [f"{each[name]:,.1f}" for name in ("formula_ms", "with_headers_ms", "packets_ms")]
        deviation = f"{each['packets_ms'] / each['with_headers_ms'] - 1:+.2%}"
        assert [str(each["workers"]), *times, deviation, f"{each['frames']:,}"] in [row[1:] for row in rows]
    result = invoke("dense", "overlap", path, "--packets", "--scheduler", "fixed", "--json")
    (found,) = json.loads(result.stdout)
    toy = Layers(("in", "out"), np.array([80000, 40000]), np.array([200.0, 100.0]))
    assert fixed_buffers(toy, AlphaBetaModel()).last_gradients == (1,)
    assert found["gradients_ms"]["fixed buffers"] == pytest.approx(0.3 + 1.37 + 0.12 * 1.66)
    assert found["packets_ms"]["fixed buffers"] == pytest.approx(0.3 + 1.37 + 0.12 * 1.66, rel=0.03)
    for command in ("whatif", "overlap"):
        result = invoke("dense", command, path, "--packets")
        assert result.exit_code == 0 and "difference" in result.stdout
