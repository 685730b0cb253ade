"""Timing a PyTorch model; some tests need the extra PyTorch: `pip install 'torch>=2.1'`."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hotline_dense.hooks import layers_of
from hotline_dense.layers import read_layers
from switch_harness.wording import says
from tests.harness.cli import invoke, json_of
from tests.harness.extras import needs_torch

SCRIPT = """
import time
import torch

class Slow(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        time.sleep(0.004)
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        time.sleep(0.02)
        return grad

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.last = torch.nn.Linear(8, 2)
        self.first = torch.nn.Linear(4, 8)
        self.frozen = torch.nn.Linear(4, 4)
        self.frozen.requires_grad_(False)

    def forward(self, x):
        return self.last(Slow.apply(self.first(self.frozen(x))))

torch.manual_seed(1)
model = Net()

def loss():
    return model(torch.ones(3, 4)).sum()
"""


class _Device:
    """A fake device, which does its pending work when it is synchronized."""

    def __init__(self) -> None:
        self.pending_s = self.now = 0.0

    def work(self, seconds: float) -> None:
        self.pending_s += seconds

    def synchronize(self) -> None:
        self.now += self.pending_s
        self.pending_s = 0.0


class _HookPoint:
    """A fake parameter or module that takes hooks."""

    def __init__(self) -> None:
        self.hooks: list[Callable[..., None]] = []

    def hook(self, hook: Callable[..., None]) -> Any:
        self.hooks.append(hook)
        return SimpleNamespace(remove=lambda: self.hooks.remove(hook))

    register_forward_hook = register_post_accumulate_grad_hook = hook

    def run_hooks(self) -> None:
        for hook in self.hooks:
            hook(self)


class _Parameter(_HookPoint):
    device: Any = SimpleNamespace(type="slow")
    requires_grad = True
    grad: Any = None


class _Module(_HookPoint):
    """Two layers. Forward takes 1 ms for the first and 4 for the second, backward 8 and 20."""

    def __init__(self, device: _Device) -> None:
        super().__init__()
        self.device = device
        self.layers = {name: _HookPoint() for name in ("first", "last")}
        self.named = {name: _Parameter() for name in ("last.w", "first.w")}

    def named_parameters(self, recurse: bool = True) -> Iterator[tuple[str, _Parameter]]:
        yield from self.named.items() if recurse else ()

    def named_modules(self) -> Iterator[tuple[str, Any]]:
        yield "", self
        for name in self.layers:
            own = [("w", self.named[f"{name}.w"])]
            yield (
                name,
                SimpleNamespace(
                    named_parameters=lambda recurse, own=own: own,
                    register_forward_hook=self.layers[name].hook,
                ),
            )

    def loss(self) -> Any:
        for name, seconds in (("first", 0.001), ("last", 0.004)):
            self.device.work(seconds)
            self.layers[name].run_hooks()
        return SimpleNamespace(backward=self.backward)

    def backward(self) -> None:
        for name, seconds in (("last.w", 0.020), ("first.w", 0.008)):
            self.device.work(seconds)
            values = 30 if name == "last.w" else 10
            self.named[name].grad = SimpleNamespace(
                is_sparse=False, numel=lambda values=values: values, element_size=lambda: 2
            )
            self.named[name].run_hooks()


def test_hooks_measure_the_times_of_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hooks measure the times and the order of a fake model, without PyTorch."""
    device = _Device()
    model = _Module(device)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(slow=device))
    monkeypatch.setattr("hotline_dense.hooks.time", SimpleNamespace(perf_counter=lambda: device.now))
    steps: list[tuple[int, int]] = []
    layers = layers_of(model, model.loss, 4, 2, lambda *at: steps.append(at))
    assert (layers.names, layers.sizes.tolist()) == (("first.w", "last.w"), [20, 60])
    assert layers.backward_us.tolist() == pytest.approx([8_000, 20_000])
    assert layers.forward_us is not None and layers.forward_us.tolist() == pytest.approx([1_000, 4_000])
    assert len(steps) == 6
    assert not any(each.hooks for each in (*model.named.values(), *model.layers.values()))


ARGPARSE = """
import argparse
import sys
import torch
import sizes  # a module beside the script

parser = argparse.ArgumentParser()
parser.add_argument("--width", type=int, required=True)
parser.add_argument("names", nargs="*")
arguments = parser.parse_args()
assert sys.argv[0].endswith("train.py") and arguments.names == ["a", "b"]
model = torch.nn.Linear(sizes.INPUTS, arguments.width)

def loss():
    import late  # another module beside the script, imported in the first step
    return late.total(model(torch.ones(2, sizes.INPUTS)))
"""


@needs_torch
def test_a_script_gets_its_own_arguments_and_the_modules_of_its_folder(tmp_path: Path) -> None:
    table = tmp_path / "mine.csv"
    before = list(sys.argv), list(sys.path)
    for inputs in (5, 6):  # the modules of another script with the same names are not reused
        folder = tmp_path / str(inputs)
        folder.mkdir()
        (folder / "sizes.py").write_text(f"INPUTS = {inputs}\n")
        (folder / "late.py").write_text("def total(y):\n    return y.sum()\n")
        options = ("-o", table, "--steps", 1, "--", "--width", 3, "a", "b")
        result = invoke("dense", "layers", script(folder, ARGPARSE), *options)
        assert (result.exit_code, result.stderr) == (0, "")
        layers = read_layers(table)
        sizes = dict(zip(layers.names, layers.sizes.tolist(), strict=True))
        assert sizes == {"weight": 4 * 3 * inputs, "bias": 4 * 3}
    assert before == (sys.argv, sys.path)


@needs_torch
def test_a_script_that_refuses_its_arguments_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "sizes.py").write_text("INPUTS = 5\n")
    path = script(tmp_path, ARGPARSE)
    result = invoke("dense", "layers", path, "-o", tmp_path / "mine.csv")
    assert result.exit_code == 1 and result.stderr.endswith(f"Error: {path}: SystemExit: 2\n")


SPARSE = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.EmbeddingBag(250_000, 16, sparse=True, mode="sum")
        self.dense = torch.nn.EmbeddingBag(1_000, 16, mode="sum")
        self.top = torch.nn.Linear(16, 1)
        self.unused = torch.nn.Linear(500, 500)

    def forward(self, ids):
        return self.top(self.table(ids) + self.dense(ids % 1_000))

model = Net()

def loss():
    return model(torch.arange(5_120).reshape(512, 10) % 5_000).sum()
"""


@needs_torch
def test_a_sparse_layer_has_the_bytes_of_its_gradient(tmp_path: Path) -> None:
    """By hand: 5,120 accessed rows have 16 floats and an index of 8 bytes each, of a table of 16 MB."""
    table = tmp_path / "mine.csv"
    assert invoke("dense", "layers", script(tmp_path, SPARSE), "-o", table, "--steps", 2).exit_code == 0
    layers = read_layers(table)
    assert dict(zip(layers.names, layers.sizes.tolist(), strict=True)) == {
        "table.weight": 5_120 * (16 * 4 + 8),
        "dense.weight": 1_000 * 16 * 4,
        "top.weight": 16 * 4,
        "top.bias": 4,
        "unused.weight": 0,
        "unused.bias": 0,
    }


def script(folder: Path, text: str) -> Path:
    path = folder / "train.py"
    path.write_text(textwrap.dedent(text))
    return path


@needs_torch
def test_the_table_of_a_model_has_measured_sizes_and_times_of_each_layer(tmp_path: Path) -> None:
    """The 20 ms of backward and 4 ms of forward between the layers belong to the layer that comes next."""
    table = tmp_path / "mine.csv"
    options = ("--steps", 2, "--warm-up", 1, "--json")
    result = invoke("dense", "layers", script(tmp_path, SCRIPT), "-o", table, *options)
    assert (result.exit_code, result.stderr) == (0, "")
    totals = json.loads(result.stdout)
    layers = read_layers(table)
    # In the order of the forward pass, not of definition; a frozen layer has no gradient.
    assert {name.partition(".")[0] for name in layers.names[:2]} == {"first"}
    assert {name.partition(".")[0] for name in layers.names[2:]} == {"last"}
    sizes = dict(zip(layers.names, layers.sizes.tolist(), strict=True))
    assert sizes == {"first.weight": 128, "first.bias": 32, "last.weight": 64, "last.bias": 8}
    backward = dict(zip(layers.names, layers.backward_us.tolist(), strict=True))
    assert backward["first.weight"] + backward["first.bias"] > 20_000
    assert layers.forward_us is not None
    forward = dict(zip(layers.names, layers.forward_us.tolist(), strict=True))
    assert forward["last.weight"] > 4_000 and forward["last.bias"] == 0
    assert totals["layers"] == 4 and totals["bytes"] == 232


@needs_torch
def test_whatif_reads_the_table(tmp_path: Path) -> None:
    table = tmp_path / "mine.parquet"
    assert invoke("dense", "layers", script(tmp_path, SCRIPT), "-o", table, "--steps", 1).exit_code == 0
    assert json_of("dense", "whatif", table)["models"][0]["model"] == "mine"


@needs_torch
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("loss = print", "expected a script with `model`, a torch.nn.Module, and `loss()`"),
        ("import torch\nmodel = torch.nn.Linear(1, 1)", "expected a script with `model`"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        (
            "import torch\nmodel = torch.nn.Linear(1, 1)\n"
            "loss = lambda: torch.ones(1, requires_grad=True).sum()",
            "expected a loss that gives the model's parameters gradients, got no gradient",
        ),
        (
            "import torch\nmodel, loss = torch.nn.ReLU(), print",
            "expected a model with parameters that require gradients",
        ),
    ],
)
def test_an_invalid_script_is_refused_and_writes_no_table(tmp_path: Path, text: str, message: str) -> None:
    result = invoke("dense", "layers", script(tmp_path, text), "-o", tmp_path / "mine.csv")
    assert (result.exit_code, result.stdout) == (1, "") and message in result.stderr
    assert not (tmp_path / "mine.csv").exists()


def test_without_pytorch_the_command_says_how_to_install_pytorch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    result = invoke("dense", "layers", script(tmp_path, SCRIPT), "-o", tmp_path / "mine.csv")
    assert (result.exit_code, result.stdout) == (1, "")
    assert says(result.stderr, "torch>=2.1", "install") and len(result.stderr.splitlines()) == 1


def test_a_missing_script_and_an_unknown_table_suffix_are_refused(tmp_path: Path) -> None:
    result = invoke("dense", "layers", tmp_path / "none.py", "-o", tmp_path / "mine.csv")
    assert result.exit_code == 1 and says(result.stderr, "none.py", "file")
    result = invoke("dense", "layers", tmp_path / "none.py", "-o", tmp_path / "mine.txt")
    message = "mine.txt: expected a name that ends with .csv or .parquet"
    assert result.exit_code == 1 and message in result.stderr
