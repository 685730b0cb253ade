"""[BOTTLENECK]'s table to the third digit, formulas by hand, the required network, curves of utilisation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from foundation.errors import DataError
from hotline_dense.answers import requirements_of
from hotline_dense.catalogue import DenseModel, open_model, open_models
from hotline_dense.fusion import MIB, PRESETS, Fusion, fuse
from hotline_dense.layers import Layers
from hotline_dense.network import (
    AGGREGATIONS,
    Aggregation,
    DenseNetwork,
    addition_us,
    read_utilisation,
    reduce_us,
)
from hotline_dense.whatif import (
    PAPER_FUSION,
    SETUPS,
    SMALL_SETUP,
    bottleneck_rows,
    exposed_us,
    needed_compression,
    needed_gbit,
    scaling_factor,
)
from tools.evidence.result import published_table

PUBLISHED = {
    "ResNet-50": (102, 12, (0.995, 0.994, 0.910, 0.540, 0.076, 0.817, 0.994, 0.995), 0.572),
    "ResNet-101": (178, 20, (0.997, 0.997, 0.890, 0.500, 0.066, 0.787, 0.997, 0.997), 0.531),
    "VGG-16": (553, 15, (0.993, 0.622, 0.439, 0.201, 0.022, 0.367, 0.723, 0.993), 0.212),
}
"""Megabytes, messages, and factors with 64 and 16 workers, calculated from the authors' logs and rule."""


def model(sizes: list[int], backward_us: list[float], step_us: float) -> DenseModel:
    names = tuple(f"layer{i}" for i in range(len(sizes)))
    layers = Layers(names, np.array(sizes, dtype=np.int64), np.array(backward_us))
    return DenseModel("toy", "toy", layers, step_us)


def test_the_table_of_the_paper_is_reproduced_to_the_third_digit() -> None:
    assert [(each.gbit, each.compression, each.workers) for each in SETUPS] == [
        (100, 1, 64), (40, 1, 64), (25, 1, 64), (10, 1, 64), (1, 1, 64),
        (10, 2, 64), (10, 5, 64), (10, 10, 64),
    ]  # fmt: skip
    assert (SMALL_SETUP.gbit, SMALL_SETUP.compression, SMALL_SETUP.workers) == (10, 1, 16)
    found = {
        row.model.title: (
            round(row.model.layers.bytes // 1_000_000),
            row.messages,
            tuple(round(factor, 3) for factor in row.factors),
            round(row.small_factor, 3),
        )
        for row in bottleneck_rows()
    }
    assert found == PUBLISHED
    shown = {row.name: row.cells for row in published_table("dense-scaling").rows}
    for name, (size, messages, factors, small_factor) in PUBLISHED.items():
        assert shown[name] == pytest.approx((size, messages, *factors, small_factor), abs=0.0005, rel=0.005)
    assert set(shown) == set(PUBLISHED)


def test_the_papers_claim_of_2x_to_5x_holds_for_resnets_and_not_for_vgg_16() -> None:
    """The paper's "2x-5x at 10 Gbit/s" holds for ResNets, and not for VGG-16."""
    found = {row.model.title: (row.is_as_claimed, f"{row.compression:.2f}×") for row in bottleneck_rows()}
    assert found == {
        "ResNet-50": (True, "2.44×"), "ResNet-101": (True, "2.56×"), "VGG-16": (False, "7.18×")
    }  # fmt: skip


def test_required_bandwidths_and_compressions_equal_the_documented_table() -> None:
    """The README: which bandwidth, which compression, and which with a switch, for 0.9 at 64 workers."""
    models = open_models(["resnet50", "resnet101", "vgg16", "bert-large"])
    found = requirements_of(models, DenseNetwork(gbit=10), PAPER_FUSION)
    shown = {row.name: row.cells for row in published_table("dense-required").rows}
    assert set(shown) == {each.model for each in found}
    for each in found:
        needed = (each.gbit, each.compression, each.compression_with_switch)
        assert shown[each.model] == pytest.approx(needed)
    assert found[0].cells() == ("24.4", "2.44×", "1.11×")


def test_results_at_the_bounds_are_marked() -> None:
    toy = model([10**9], [1000], 2000)
    (found,) = requirements_of([toy], DenseNetwork(gbit=1), PAPER_FUSION)
    assert found.cells() == ("more than 400", "more than 100×", "more than 100×")
    (slow,) = requirements_of([model([10**3], [10**5], 10**6)], DenseNetwork(gbit=0.001), PAPER_FUSION)
    assert slow.cells()[0] == "at most 1"


def test_the_time_of_a_rings_all_reduce_equals_a_calculation_by_hand() -> None:
    """4 workers, 10 Gbit/s: 1.25 GB/s; three quarters of 10 MB twice, and three additions of 2.5 MB."""
    network = DenseNetwork(workers=4, gbit=10)
    wire = 2 * 0.75 * 10_000_000 / 1250
    added = 3 * (10.704 + (2_500_000 - 1_310_720) / 1_310_720 * (18.1632 - 10.704))
    assert reduce_us(network, 10_000_000) == pytest.approx(wire + added)
    for setting, value, expected in (
        ("compression", 5.0, wire / 5 + added),
        ("startup_us", 7.0, wire + added + 6 * 7),
        ("utilisation", 0.5, 2 * wire + added),
    ):
        changed = network.model_copy(update={setting: value})
        assert reduce_us(changed, 10_000_000) == pytest.approx(expected), setting


@pytest.mark.parametrize(
    ("aggregation", "servers", "wire", "added"),
    [
        ("tree", None, 3 * 2 * 8000, 3 * addition_us(10_000_000)),
        ("servers", None, 2 * 8000, 7 * addition_us(1_250_000)),
        ("servers", 2, 2 * 4 * 8000, 7 * addition_us(5_000_000)),
        ("servers", 16, 2 * 8000, 7 * addition_us(625_000)),
        ("switch", None, 8000, 0.0),
    ],
)
def test_the_times_of_trees_servers_and_switches_equal_calculations_by_hand(
    aggregation: Aggregation, servers: int | None, wire: float, added: float
) -> None:
    """8 workers, 10 MB at 10 Gbit/s, which takes 8,000 µs one way."""
    network = DenseNetwork(workers=8, gbit=10, aggregation=aggregation, servers=servers)
    assert reduce_us(network, 10_000_000) == pytest.approx(wire + added)


@pytest.mark.parametrize(
    ("aggregation", "servers", "per_machine", "sums_locally", "wire", "added", "startups"),
    [
        # The ring goes from machine to machine over one link of each card.
        ("ring", None, 4, False, 2 * 7 / 8 * 8000, 7 * addition_us(1_250_000), 14),
        ("ring", None, 3, False, 2 * 7 / 8 * 8000, 7 * addition_us(1_250_000), 14),
        ("ring", None, 8, False, 0, 7 * addition_us(1_250_000), 14),
        ("ring", None, 4, True, 2 * 1 / 2 * 8000,
         addition_us(5_000_000) + 3 * addition_us(2_500_000), 2 + 6),
        ("ring", None, 8, True, 0, 7 * addition_us(1_250_000), 14),
        # Two of three levels are within the machine.
        ("tree", None, 4, False, 2 * 8000, 3 * addition_us(10_000_000), 6),
        ("tree", None, 4, True, 2 * 8000, addition_us(10_000_000) + 3 * addition_us(2_500_000), 2 + 6),
        # Four workers' gradients leave through a card; one server receives those of all eight.
        ("servers", None, 4, False, 2 * 4 * 8000, 7 * addition_us(1_250_000), 2),
        ("servers", 1, 4, False, 2 * 8 * 8000, 7 * addition_us(10_000_000), 2),
        ("servers", 1, 4, True, 2 * 2 * 8000, addition_us(10_000_000) + 3 * addition_us(2_500_000), 2 + 6),
        ("servers", None, 4, True, 2 * 8000, addition_us(1_250_000) + 3 * addition_us(2_500_000), 2 + 6),
        ("switch", None, 4, False, 4 * 8000, 0, 1),
        ("switch", None, 100, False, 8 * 8000, 0, 1),
        ("switch", None, 4, True, 8000, 3 * addition_us(2_500_000), 1 + 6),
    ],
)  # fmt: skip
def test_the_times_of_workers_that_share_a_network_card_equal_calculations_by_hand(
    aggregation: Aggregation, servers: int | None, per_machine: int, sums_locally: bool, wire: float,
    added: float, startups: int,
) -> None:  # fmt: skip
    """8 workers, 10 MB at 10 Gbit/s, which takes 8,000 µs one way; a step's start-up takes 5 µs."""
    network = DenseNetwork(
        workers=8, gbit=10, aggregation=aggregation, servers=servers, per_machine=per_machine,
        sums_locally=sums_locally, startup_us=5,
    )  # fmt: skip
    assert reduce_us(network, 10_000_000) == pytest.approx(wire + added + 5 * startups)


@pytest.mark.parametrize("sums_locally", [False, True])
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_a_card_for_each_worker_is_the_default(aggregation: Aggregation, sums_locally: bool) -> None:
    own = DenseNetwork(workers=6, gbit=10, aggregation=aggregation, startup_us=5)
    same = own.model_copy(update={"per_machine": 1, "sums_locally": sums_locally})
    assert reduce_us(same, [10_000, 10_000_000]) == pytest.approx(reduce_us(own, [10_000, 10_000_000]))


def test_the_time_of_an_addition_is_clamped_to_the_measured_sizes() -> None:
    assert [float(addition_us(size)) for size in (1, 40, 671_088_640, 10**10)] == [
        10.4448, 10.4448, 2433.68, 2433.68
    ]  # fmt: skip


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_a_single_worker_has_a_scaling_factor_of_1(aggregation: Aggregation) -> None:
    network = DenseNetwork(workers=1, gbit=1, aggregation=aggregation, startup_us=5)
    assert scaling_factor(open_model("vgg16"), network) == 1.0


def test_a_curve_of_utilisation_is_interpolated_and_clamped() -> None:
    network = DenseNetwork(workers=2, aggregation="switch", utilisation=((10.0, 1.0), (100.0, 0.1)))
    full = DenseNetwork(workers=2, aggregation="switch")
    for gbit, share in ((1, 1.0), (10, 1.0), (55, 0.55), (100, 0.1), (400, 0.1)):
        assert reduce_us(network, 10**6, gbit) == pytest.approx(reduce_us(full, 10**6, gbit) / share)
    for wrong in ((), ((10.0, 1.0), (10.0, 0.5)), ((10.0, 1.5),), 0.0):
        with pytest.raises(ValidationError, match="utilisation"):
            DenseNetwork(utilisation=wrong)


def test_a_buffer_is_sent_when_its_cycle_ends_or_the_buffer_is_full() -> None:
    """Buffers fill from the last layer on; the bound is checked after each layer, the rest is sent last."""
    layers = model([10, 20, 70 * MIB, 30, 40], [1000, 4000, 1000, 3000, 2000], 20_000).layers
    sizes, ready = fuse(layers, PRESETS["horovod-0.20"])
    assert sizes.tolist() == [70, 70 * MIB, 30]
    assert ready.tolist() == [5000, 6000, 11_000]
    assert fuse(layers, PRESETS["layers"])[0].tolist() == [40, 30, 70 * MIB, 20, 10]
    whole = fuse(layers, PRESETS["whole"])
    assert (whole[0].tolist(), whole[1].tolist()) == ([70 * MIB + 100], [11_000])


def test_the_first_bucket_of_ddp_is_small() -> None:
    layers = model([MIB] * 60, [1.0] * 60, 100).layers
    sizes, ready = fuse(layers, PRESETS["pytorch-ddp-2"])
    assert (sizes // MIB).tolist() == [1, 25, 25, 9]
    assert ready.tolist() == [1, 26, 51, 60]


def test_presets_are_the_defaults_of_horovod_pytorch_and_dear() -> None:
    assert PRESETS["horovod-0.20"] == Fusion(cycle_us=5_000, max_bytes=67_108_864)
    assert PRESETS["horovod-0.21"] == Fusion(cycle_us=1_000, max_bytes=134_217_728)
    assert PRESETS["pytorch-ddp-2"] == Fusion(max_bytes=26_214_400, first_bytes=1_048_576)
    assert PRESETS["dear"] == Fusion(max_bytes=26_214_400)


def test_exposed_time_is_the_all_reduce_time_that_backward_does_not_hide() -> None:
    """Two buffers of 1 MB through a switch at 8 Gbit/s: 1,000 µs each; ready at 100 and 300 µs."""
    toy = model([10**6, 10**6], [200, 100], 700)
    network = DenseNetwork(workers=4, gbit=8, aggregation="switch")
    assert exposed_us(toy, network, PRESETS["layers"]) == pytest.approx(100 + 2000 - 300)
    assert scaling_factor(toy, network, PRESETS["layers"]) == pytest.approx(700 / 2500)
    # Fast enough, only the last buffer is seen.
    assert exposed_us(toy, network, PRESETS["layers"], 80) == pytest.approx(100)


def test_a_grid_of_factors_equals_its_points_computed_alone() -> None:
    resnet, gbit, times = open_model("resnet50"), np.array([1.0, 10, 100]), np.array([[1.0], [7.0]])
    grid = scaling_factor(resnet, DenseNetwork(), gbit=gbit, compression=times)
    assert grid.shape == (2, 3)
    for row, compression in zip(grid, times[:, 0], strict=True):
        for factor, rate in zip(row, gbit, strict=True):
            assert factor == scaling_factor(resnet, DenseNetwork(gbit=rate, compression=compression))


def test_the_needed_bandwidth_or_compression_reaches_the_target_factor() -> None:
    resnet, vgg, ten = open_model("resnet50"), open_model("vgg16"), DenseNetwork(gbit=10)
    needed = needed_gbit(resnet, ten)
    assert needed is not None and 10 < needed < 25
    assert scaling_factor(resnet, ten, gbit=needed) == pytest.approx(0.9, abs=1e-9)
    # "2x-5x at 10 Gbit/s" holds for ResNets, and not for VGG-16.
    for name in ("resnet50", "resnet101"):
        assert 2 < (needed_compression(open_model(name), ten) or 0) < 5
    assert 5 < (needed_compression(vgg, ten) or 0) < 10
    assert needed_compression(resnet, DenseNetwork(gbit=100)) == 1.0
    assert needed_gbit(resnet, ten, target=0.999) is None
    # A switch that adds halves what is sent.
    switch = needed_compression(vgg, ten.model_copy(update={"aggregation": "switch"}))
    assert switch is not None and switch < 0.6 * (needed_compression(vgg, ten) or 0)


@given(
    st.lists(st.tuples(st.integers(1, 10**8), st.floats(0, 1e4)), min_size=1, max_size=20),
    st.sampled_from(AGGREGATIONS),
    st.sampled_from(sorted(PRESETS)),
    st.floats(1, 400),
    st.floats(1, 100),
)
def test_more_bandwidth_or_compression_never_lowers_the_factor(
    layers: list[tuple[int, float]], aggregation: Aggregation, preset: str, gbit: float, compression: float
) -> None:
    """Factors rise with both, as bisection assumes, and are from 0 to 1."""
    toy = model([size for size, _ in layers], [us for _, us in layers], 1 + sum(us for _, us in layers))
    network, fusion = DenseNetwork(workers=7, aggregation=aggregation), PRESETS[preset]
    rising = [
        float(scaling_factor(toy, network, fusion, rate, times))
        for rate, times in ((gbit, compression), (1.1 * gbit, compression), (1.1 * gbit, 1.1 * compression))
    ]
    assert 0 < rising[0] <= rising[1] + 1e-12 <= rising[2] + 2e-12 <= 1 + 3e-12


def test_a_curve_is_read(tmp_path: Path) -> None:
    file = tmp_path / "curve.csv"
    file.write_text("utilisation,gbit\n0.95,10\n0.3,100\n")
    assert read_utilisation(file) == ((10.0, 0.95), (100.0, 0.3))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gbit\n10\n", "its columns are gbit; expected gbit, utilisation"),
        ("gbit,utilisation\n", "has no row"),
        ("gbit,utilisation\n10,\n", "line 2: column utilisation is empty"),
        ("gbit,utilisation\n10,x\n", "line 2: column utilisation is 'x'; a number expected"),
        (
            "gbit,utilisation\n10,0.5\n10,0.6\n",
            "line 3: column gbit is 10; expected more than in the previous line",
        ),
        ("gbit,utilisation\n10,95\n", "line 2: column utilisation is 95; a share up to 1"),
        ("gbit,utilisation\nnan,1\n", "line 2: column gbit is nan"),
    ],
)
def test_an_invalid_curve_of_utilisation_is_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "curve.csv"
    file.write_text(text)
    with pytest.raises(DataError) as error:
        read_utilisation(file)
    assert message in str(error.value) and str(file) in str(error.value)
