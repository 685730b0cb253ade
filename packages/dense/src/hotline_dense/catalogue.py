"""The built-in models with the sources of their times, and models from users' tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from foundation.settings import Strict
from foundation.text import shortened
from hotline_dense import DenseError
from hotline_dense.layers import SUFFIXES, Layers, read_layers

MODELS_FOLDER = Path(__file__).parent / "models"
_STEP_TOLERANCE = 1e-9  # relative rounding error of a step's time
BACKWARD_SHARE = 2 / 3
"""Share of backward in an estimated step: backward has two products for each product of forward."""


@dataclass(frozen=True, slots=True)
class ModelOrigin:
    title: str
    step_us: float
    batch: int  # samples
    source: str
    is_estimate: bool = True
    """Whether layer times were not measured, but are the step's time, split by the layers' multiply-adds."""


_BOTTLENECK = (
    "layers and step as measured by the authors of [BOTTLENECK] (netx-repo/training-bottleneck, simulation, "
    "Apache-2.0)"
)
_LAMBDA_SOURCE = (
    "{} images/s on a V100, FP32 (Lambda, RTX 2080 Ti Deep Learning Benchmarks with TensorFlow, 2019)"
)
ORIGINS = {
    "resnet50": ModelOrigin(
        "ResNet-50", step_us=128_085.80219559176, batch=32, source=_BOTTLENECK, is_estimate=False
    ),
    "resnet101": ModelOrigin(
        "ResNet-101", step_us=192_005.99479476405, batch=32, source=_BOTTLENECK, is_estimate=False
    ),
    "vgg16": ModelOrigin(
        "VGG-16", step_us=194_523.52295080985, batch=32, source=_BOTTLENECK, is_estimate=False
    ),
    "resnet152": ModelOrigin(
        "ResNet-152", step_us=1e6 * 32 / 155, batch=32, source=_LAMBDA_SOURCE.format(155)
    ),
    "densenet201": ModelOrigin(
        "DenseNet-201",
        step_us=125_276.0,
        batch=12,
        source="125.276 ms for 12 images on a V100, FP32 (aisensiy/pytorch-gpu-benchmark, median of 50)",
    ),
    "inceptionv4": ModelOrigin(
        "Inception-v4", step_us=1e6 * 32 / 112, batch=32, source=_LAMBDA_SOURCE.format(112)
    ),
    "bert-base": ModelOrigin(
        "BERT-Base",
        step_us=1e6 * 32 / 119.60,
        batch=32,
        source="119.60 sequences/s of 128 on a V100, FP32, PyTorch (Oneflow-Inc/DLPerf, report v1)",
    ),
    "bert-large": ModelOrigin(
        "BERT-Large",
        step_us=1e6 * 32 / 40.32,
        batch=32,
        source="40.32 sequences/s of 128 on a V100, FP32 "
        "(NVIDIA/DeepLearningExamples, PyTorch BERT, DGX-1 32G)",
    ),
    "dlrm": ModelOrigin(
        "DLRM, dense part",
        step_us=1e6 * 32_768 / 494_000,
        batch=32_768,
        source="494,000 samples/s on a V100, FP32, embeddings included "
        "(NVIDIA/DeepLearningExamples, PyTorch DLRM)",
    ),
}
"""Sources of the built-in models by name, the three of [BOTTLENECK] first."""
MEASURED_MODELS = tuple(name for name, origin in ORIGINS.items() if not origin.is_estimate)


@dataclass(frozen=True, slots=True)
class DenseModel:
    name: str
    title: str
    layers: Layers
    step_us: float
    source: str = "your table"
    is_estimate: bool = False

    def __post_init__(self) -> None:
        backward_us = self.layers.total_backward_us
        if self.step_us < backward_us * (1 - _STEP_TOLERANCE):
            raise DenseError(
                f"{self.name}: a step of {self.step_us / 1e3:g} ms is shorter than its backward, "
                f"{backward_us / 1e3:.4g} ms"
            )
        if self.step_us == 0:
            raise DenseError(f"{self.name}: all times are 0; backward_us in µs is expected")

    @property
    def label(self) -> str:
        return f"{self.title} (estimate)" if self.is_estimate else self.title

    @property
    def before_backward_us(self) -> float:
        return self.step_us - self.layers.total_backward_us


def open_model(name: str, step_us: float | None = None) -> DenseModel:
    """Open a built-in model by its name, or a table; `step_us` is for a table without the forward times.

    For an estimate, `step_us` scales all times. Raises `DataError` for an invalid table and `DenseError` for
    an unknown name.
    """
    if name not in ORIGINS:
        return _open_table(Path(name), step_us)
    origin = ORIGINS[name]
    layers = read_layers(MODELS_FOLDER / f"{name}.csv")
    if origin.is_estimate and step_us is not None:
        layers = layers.scale_times(step_us / origin.step_us)
    return DenseModel(
        name, origin.title, layers, step_us or origin.step_us, origin.source, origin.is_estimate
    )


class ModelTimes(Strict):
    step_ms: float | None = Field(default=None, ge=0.001, le=1e6)
    """Time of a step on one worker, for a table without forward_us; scales all times of an estimate."""


def open_models(names: Sequence[str], step_us: float | None = None) -> list[DenseModel]:
    """Open models with distinct names; `step_us` is allowed with one model only; raises like `open_model`."""
    if step_us is not None and len(names) != 1:
        raise DenseError(f"--step-ms {step_us / 1e3:g}: expected one model, got {len(names)}")
    models = [open_model(name, step_us) for name in names]
    model_names = [model.name for model in models]
    for index, name in enumerate(model_names):
        if name in model_names[:index]:
            raise DenseError(f"{names[index]}: {name} was given before; expected distinct names of models")
    return models


def _open_table(path: Path, step_us: float | None) -> DenseModel:
    if path.suffix not in SUFFIXES and not path.exists():
        names = shortened(", ".join(ORIGINS))
        raise DenseError(f"{path}: neither a table ({' or '.join(SUFFIXES)}) nor one of {names}")
    layers = read_layers(path)
    if step_us is None and layers.forward_us is None:
        raise DenseError(
            f"{path}: forward_us is empty, so the time of a step is unknown; give it with --step-ms"
        )
    forward_us = 0.0 if layers.forward_us is None else float(layers.forward_us.sum())
    return DenseModel(path.stem, path.stem, layers, step_us or forward_us + layers.total_backward_us)
