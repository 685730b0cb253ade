"""Each argument of `hotline.torch.EmbeddingBag` and of its calls, with each kind of wrong value."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import hotline
from hotline_scripts.kv.worker import Worker
from tests.harness.extras import NO_TORCH
from tests.harness.loopback import running_rendezvous
from tests.harness.wrong_arguments import KINDS, is_named, refusal

torch = pytest.importorskip("torch", reason=NO_TORCH)

ROWS, DIM = 4, 2

TENSORS: dict[str, Callable[[], Any]] = {
    "int64 tensor": lambda: torch.tensor([0, 1]),
    "int32 tensor": lambda: torch.tensor([0, 1], dtype=torch.int32),
    "int16 tensor": lambda: torch.tensor([0, 1], dtype=torch.int16),
    "float32 tensor": lambda: torch.zeros(2),
    "float64 tensor": lambda: torch.zeros(2, dtype=torch.float64),
    "bool tensor": lambda: torch.tensor([True, False]),
    "complex tensor": lambda: torch.zeros(2, dtype=torch.complex64),
    "NaN tensor": lambda: torch.tensor([0.0, float("nan")]),
    "descending tensor": lambda: torch.tensor([0, 1, 0]),
    "tensor from 1": lambda: torch.tensor([1, 2]),
    "tensor up to 9": lambda: torch.tensor([0, 9]),
    "negative tensor": lambda: torch.tensor([0, -1]),
    "tensor without dimensions": lambda: torch.tensor(1),
    "integer tensor of shape (2, 2)": lambda: torch.zeros(2, 2, dtype=torch.int64),
    "tensor of shape (2, 2)": lambda: torch.zeros(2, 2),
    "tensor of shape (1, 1, 2)": lambda: torch.zeros(1, 1, 2, dtype=torch.int64),
    "empty tensor": lambda: torch.zeros(0, dtype=torch.int64),
    "meta tensor": lambda: torch.zeros(2, dtype=torch.int64, device="meta"),
    "sparse tensor": lambda: torch.zeros(2, dtype=torch.int64).to_sparse(),
    "tensor with a gradient": lambda: torch.zeros(2, requires_grad=True),
}
VALUES = {**KINDS, **TENSORS}

ARGUMENTS: dict[str, set[str]] = {
    "num_embeddings": set(),
    "embedding_dim": set(),
    "max_norm": {"None"},
    "norm_type": set(VALUES),  # of `max_norm`, which has to be None
    "scale_grad_by_freq": set(),
    "mode": set(),
    "sparse": {"bool"},
    "_weight": {"None"},
    "include_last_offset": {"bool"},
    "padding_idx": {"None", "zero", "negative"},
    "device": {"None"},
    "dtype": {"None"},
    "kv": set(),
    "lr": {
        "zero", "huge", "fraction", "array without dimensions", "tensor without dimensions",
    },
    "table": {"None"},
}  # fmt: skip
"""Argument -> kinds that are valid for it."""

CALLS: dict[tuple[str, str], set[str]] = {
    ("prefetch", "input"): {"int64 tensor", "int32 tensor"},
    ("forward", "input"): {"int64 tensor", "int32 tensor"},
    ("forward", "offsets"): {"int64 tensor", "int32 tensor", "empty tensor"},
    ("forward", "per_sample_weights"): {"None", "float32 tensor", "NaN tensor", "tensor with a gradient"},
}
_TWO_DIMENSIONS = {"descending tensor", "tensor from 1", "integer tensor of shape (2, 2)", "empty tensor"}
"""Inputs that are valid without the offsets of the test, or with others; `test_torch.py` tries them."""


@pytest.fixture
def kv(tmp_path: Path) -> Iterator[Worker]:
    with (
        running_rendezvous(tmp_path, size=1) as running,
        hotline.Worker({"rows": (ROWS, DIM)}, connect=running.place) as kv,
    ):
        yield kv


def bag(kv: Worker, /, **more: Any) -> Any:
    given = {"num_embeddings": ROWS, "embedding_dim": DIM, "mode": "sum", "kv": kv, "lr": 0.1, **more}
    return hotline.torch.EmbeddingBag(**given)


def submitted(kv: Worker) -> int:
    return kv._open_engine._submitted_count


def test_all_arguments_are_tried() -> None:
    layer = hotline.torch.EmbeddingBag
    assert set(inspect.signature(layer).parameters) == set(ARGUMENTS)
    for call in ("prefetch", "forward"):
        assert set(inspect.signature(getattr(layer, call)).parameters) - {"self"} == {
            argument for name, argument in CALLS if name == call
        }


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("argument", ARGUMENTS)
def test_a_wrong_argument_of_a_layer_is_named(kv: Worker, argument: str) -> None:
    for kind in VALUES.keys() - ARGUMENTS[argument]:
        wrong = VALUES[kind]()
        message = refusal(lambda: bag(kv, **{argument: wrong}), kind)  # noqa: B023
        assert argument in message and is_named(message, wrong), (kind, message)
    assert submitted(kv) == 0


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("call", "argument"), CALLS)
def test_a_wrong_argument_of_a_call_is_named_and_nothing_is_pulled(
    kv: Worker, call: str, argument: str
) -> None:
    layer = bag(kv)
    for kind in VALUES.keys() - CALLS[call, argument]:
        if argument == "input" and kind in _TWO_DIMENSIONS:
            continue
        wrong = VALUES[kind]()
        arguments = {"input": torch.tensor([0, 1])}
        if call == "forward":
            arguments["offsets"] = torch.tensor([0, 1])
        arguments[argument] = wrong
        message = refusal(lambda: getattr(layer, call)(**arguments), kind)  # noqa: B023
        assert argument in message, (kind, message)
        is_tensor = isinstance(wrong, torch.Tensor)
        assert ("got" in message or "is" in message) if is_tensor else is_named(message, wrong), message
    assert submitted(kv) == 0
    for kind in CALLS[call, argument]:
        given = {"input": torch.tensor([0, 1]), argument: VALUES[kind]()}
        if call == "forward":
            given.setdefault("offsets", torch.tensor([0, 1]))
        getattr(layer, call)(**given)


@pytest.mark.filterwarnings("error")
def test_a_wrong_rate_is_refused_and_the_rate_stays(kv: Worker) -> None:
    layer = bag(kv)
    for kind in VALUES.keys() - ARGUMENTS["lr"]:
        wrong = VALUES[kind]()
        message = refusal(lambda: setattr(layer, "lr", wrong), kind)  # noqa: B023
        assert "lr" in message and is_named(message, wrong), (kind, message)
        assert layer.lr == 0.1
