"""The fit of the paper's servers: synthetic truths, figures that are held out, and the preset."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from experiment.run_config import load_config, load_config_as
from foundation.checkout import ROOT
from foundation.errors import DataError
from foundation.import_graph import files_needed_by
from hotline_paper.regime import fit as fitting
from hotline_paper.regime import held_out, model
from hotline_paper.regime.fit import GRID, RegimeFit, fit, fit_to_figures
from hotline_paper.regime.model import Parameters, observe
from hotline_paper.regime.points import ALL_ARMS, cluster_config, settings_of
from hotline_paper.regime.readings import (
    MEASURED_WORKERS,
    READINGS,
    SERVERS,
    SERVERS_IN_FIG_1,
    FigureReading,
    predicted_readings,
)
from hotline_simulator.config import SimulationConfig

ASSUMED = next(iter(SERVERS_IN_FIG_1))
TRUTHS = (
    Parameters(compute_ms=1.0, delay_us=10.0, serve_us=24.0, connection_ns=5.0, contention=0.01),
    Parameters(compute_ms=2.0, delay_us=5.0, serve_us=32.0, connection_ns=20.0, contention=0.0),
)
PRESETS = ROOT / "packages" / "paper" / "presets"
RELATIVE_ERROR = 0.02  # of synthetic readings
HELD_OUT = "held_out"
FEW = 2  # of seven readings


@cache
def fitted() -> RegimeFit:
    return fit_to_figures(ASSUMED)


def predict(parameters: Parameters) -> tuple[model.Values, ...]:
    """Return the model's readings and how busy servers are: without it, what polls cost is not seen."""
    busy = observe(parameters, MEASURED_WORKERS, SERVERS).servers_busy
    return *predicted_readings(parameters, SERVERS_IN_FIG_1[ASSUMED]), busy


def synthetic_readings(truth: Parameters) -> list[FigureReading]:
    return [
        FigureReading(
            "synthetic", f"{number}", *sorted(float(value) * (1 + sign * RELATIVE_ERROR) for sign in (-1, 1))
        )
        for number, value in enumerate(predict(truth))
    ]


@pytest.mark.parametrize("truth", TRUTHS)
def test_the_fit_recovers_synthetic_parameters(truth: Parameters) -> None:
    """The truth is in every interval; computing, delay and a request's time are known to two grid steps."""
    found = fit(predict, synthetic_readings(truth))
    for name in GRID:
        low, high = found.interval(name)
        assert low <= getattr(truth, name) <= high
    for name in ("compute_ms", "serve_us", "delay_us"):
        steps = [GRID[name].index(value) for value in found.interval(name)]
        assert steps[1] - steps[0] <= 2
    assert len(np.asarray(found.accepted.serve_us)) < found.size / 1_000


def test_a_reading_of_another_truth_rejects_the_first_one() -> None:
    readings, others = (synthetic_readings(truth) for truth in TRUTHS)
    found = fit(predict, [*others[:-1], readings[-1]._replace(low=0.0, high=1.0)])
    accepted = np.stack([np.asarray(each) for each in found.accepted])
    assert not (accepted == np.array(TRUTHS[0])[:, np.newaxis]).all(axis=0).any()


def test_fewer_readings_accept_more_parameters() -> None:
    def predict_first(parameters: Parameters) -> Sequence[model.Values]:
        return predict(parameters)[:FEW]

    readings = synthetic_readings(TRUTHS[0])
    counts = [
        len(np.asarray(fit(of, kept).accepted.serve_us))
        for of, kept in ((predict, readings), (predict_first, readings[:FEW]))
    ]
    assert counts[0] < counts[1]


def test_readings_without_matching_parameters_are_an_error() -> None:
    impossible = [*READINGS[:-1], READINGS[-1]._replace(low=1e6, high=2e6)]
    with pytest.raises(DataError, match=r"Fig\. 7b \(workers that call a server"):
        fit(lambda parameters: predicted_readings(parameters, SERVERS_IN_FIG_1[ASSUMED]), impossible)


def test_the_fit_has_fewer_parameters_than_readings_and_agrees_with_all() -> None:
    assert len(GRID) == len(Parameters._fields) < len(READINGS)
    predicted = predicted_readings(fitted().accepted, SERVERS_IN_FIG_1[ASSUMED])
    for reading, values in zip(READINGS, predicted, strict=True):
        assert (np.asarray(values) >= reading.low).all() and (np.asarray(values) <= reading.high).all()


def names_held_out(source: str) -> bool:
    """Return whether a module names the held-out figures, in an import or as an attribute."""
    names = {
        name
        for node in ast.walk(ast.parse(source))
        for name in (
            [*(alias.name for alias in node.names), getattr(node, "module", None) or ""]
            if isinstance(node, ast.Import | ast.ImportFrom)
            else [node.attr]
            if isinstance(node, ast.Attribute)
            else []
        )
    }
    return any(name.split(".")[-1] == HELD_OUT for name in names)


def sources_of_fit() -> list[Path]:
    return list(files_needed_by([fitting.__name__]).values())


def test_the_fit_does_not_read_the_held_out_figures() -> None:
    sources = sources_of_fit()
    assert {Path(str(each.__file__)) for each in (fitting, model)} <= set(sources)
    assert Path(str(held_out.__file__)) not in sources
    assert not any(names_held_out(path.read_text()) for path in sources if "regime" in path.parts)
    assert not {"8", "9"}.intersection(reading.figure for reading in READINGS)


@pytest.mark.parametrize(
    "line",
    [
        "from hotline_paper.regime import held_out",
        "from hotline_paper.regime.held_out import SERVERS_BUSY_AT_S6",
        "import hotline_paper.regime.held_out as other",
    ],
)
def test_an_import_of_the_held_out_figures_by_the_fit_is_noticed(line: str) -> None:
    source = Path(str(fitting.__file__)).read_text()
    assert names_held_out(f"{source}\n{line}\n") and not names_held_out(source)


def test_other_held_out_values_do_not_change_the_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_out, "SERVERS_BUSY_AT_S6", 0.1)
    monkeypatch.setattr(held_out, "CLUSTERS", {})
    assert fit_to_figures(ASSUMED).middle == fitted().middle


def test_the_preset_has_the_middle_of_the_fit() -> None:
    preset = load_config_as(SimulationConfig, [f"CONFIG={PRESETS / 'paper.toml'}"])

    def settings(config: SimulationConfig) -> dict[str, object]:
        return config.model_dump(exclude={"rounds", "block_steps", "trace_steps"})

    expected, other = (
        cluster_config(settings_of(parameters), MEASURED_WORKERS, SERVERS, ALL_ARMS)
        for parameters in (fitted().middle, fitted().middle._replace(connection_ns=500.0))
    )
    assert settings(preset) == settings(expected) != settings(other)


def test_the_preset_for_mininet_is_a_configuration_of_a_run() -> None:
    config = load_config([f"CONFIG={PRESETS / 'paper-mininet.toml'}"])
    assert (config.workers, config.servers) == (4, 2)
    middle = fitted().middle
    assert config.server.ns_per_rpc == 1e3 * float(middle.serve_us)
    assert config.worker.compute_ns == 1e6 * float(middle.compute_ms)
    # As many rows at a server as in S1.
    assert config.workload.keys_per_step / config.servers == model.ROWS_PER_STEP / SERVERS
