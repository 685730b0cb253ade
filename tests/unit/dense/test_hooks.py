"""The table of a PyTorch model. What runs one needs PyTorch, an extra: `pip install 'torch>=2.1'`."""

from __future__ import annotations

import importlib.util
import json
import sys
import textwrap
from pathlib import Path

import pytest
from click.testing import CliRunner

from cli.commands import hotline
from dense.layers import read_layers

needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="PyTorch is not installed (extra `torch`)"
)
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


def script(folder: Path, text: str) -> Path:
    path = folder / "train.py"
    path.write_text(textwrap.dedent(text))
    return path


def invoke(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(hotline, ["layers", *map(str, arguments)])
    return result.exit_code, result.stdout, result.stderr


@needs_torch
def test_the_table_of_a_model(tmp_path: Path) -> None:
    """Backward takes 20 ms and forward 4 between the layers: the times are of what comes next, either way."""
    table = tmp_path / "mine.csv"
    code, told, errors = invoke(script(tmp_path, SCRIPT), "-o", table, "--steps", 2, "--warm-up", 1, "--json")
    assert (code, errors) == (0, "")
    layers = read_layers(table)
    # As forward meets them, whatever the order of their definition; what is frozen has no gradient.
    assert {name.partition(".")[0] for name in layers.names[:2]} == {"first"}
    assert {name.partition(".")[0] for name in layers.names[2:]} == {"last"}
    sizes = dict(zip(layers.names, layers.sizes.tolist(), strict=True))
    assert sizes == {"first.weight": 128, "first.bias": 32, "last.weight": 64, "last.bias": 8}
    backward = dict(zip(layers.names, layers.backward_us.tolist(), strict=True))
    assert backward["first.weight"] + backward["first.bias"] > 20_000
    assert layers.forward_us is not None
    forward = dict(zip(layers.names, layers.forward_us.tolist(), strict=True))
    assert forward["last.weight"] > 4_000 and forward["last.bias"] == 0
    assert json.loads(told)["layers"] == 4 and json.loads(told)["bytes"] == 232


@needs_torch
def test_it_is_a_table_to_ask_about(tmp_path: Path) -> None:
    table = tmp_path / "mine.parquet"
    assert invoke(script(tmp_path, SCRIPT), "-o", table, "--steps", 1)[0] == 0
    result = CliRunner().invoke(hotline, ["whatif", str(table), "--json"])
    assert result.exit_code == 0 and json.loads(result.stdout)["models"][0]["model"] == "mine"


@needs_torch
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("loss = print", "a script has `model`, a torch.nn.Module, and `loss()`"),
        ("import torch\nmodel = torch.nn.Linear(1, 1)", "a script has `model`"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("import torch\nmodel, loss = torch.nn.ReLU(), print", "no parameter that is trained"),
    ],
)
def test_what_is_no_such_script(tmp_path: Path, text: str, told: str) -> None:
    code, output, errors = invoke(script(tmp_path, text), "-o", tmp_path / "mine.csv")
    assert (code, output) == (1, "") and told in errors
    assert not (tmp_path / "mine.csv").exists()


def test_without_pytorch_it_says_how_to_have_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    code, output, errors = invoke(script(tmp_path, SCRIPT), "-o", tmp_path / "mine.csv")
    assert (code, output) == (1, "")
    assert "pip install 'torch>=2.1'" in errors and len(errors.splitlines()) == 1


def test_a_script_that_is_not_there_and_a_table_without_a_kind(tmp_path: Path) -> None:
    code, _, errors = invoke(tmp_path / "none.py", "-o", tmp_path / "mine.csv")
    assert code == 1 and "none.py: No such file" in errors
    code, _, errors = invoke(tmp_path / "none.py", "-o", tmp_path / "mine.txt")
    assert code == 1 and "mine.txt: its name has to end with .csv or .parquet" in errors
