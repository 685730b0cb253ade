"""Optimisers at a server: PyTorch's steps, a plain model's, identical bits, and declarations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from foundation.errors import HotlineError
from foundation.optimisers import OptimiserError, TableOptimiser, parse
from foundation.protocol import codec
from foundation.protocol.header import FIRST, KEYS, LANES, SECOND, SET, VALUES, Op, unpack
from hosts.keys import KeySpace
from hotline_agents.hotset.ps.state import make_server
from hotline_agents.none.ps import make_values_server
from hotline_agents.ps.rpc_server import RpcServer
from hotline_agents.ps.store import Store
from switch_harness.effort import examples
from tests.harness import torch_optimisers
from tests.harness.model_optimisers import ModelParameter, table
from tests.harness.torch_optimisers import DIM, ROWS, SCALE
from tests.harness.wire import rpc

JOB = 7
TEXTS = (
    "sgd(lr=0.3)", "adagrad(lr=0.5)", "adagrad(lr=0.1, eps=0.01, initial=0.25)", "ftrl(alpha=0.5)",
    "ftrl(alpha=0.3, beta=0.5, l2=0.1)", "ftrl(l1=0.2)", "adam(lr=0.1)",
    "adam(lr=0.2, beta1=0.5, beta2=0.75)",
)  # fmt: skip
WITHOUT_L1 = tuple(text for text in TEXTS if "l1" not in text)


class Served:
    """A server of dense keys, and one worker that pushes to it."""

    def __init__(
        self, tables: Sequence[tuple[int, str | None]], keys: int, scale: float = SCALE,
        make: Callable[..., Any] = make_values_server, as_plain: bool = False,
    ) -> None:  # fmt: skip
        declared = [table(at, text, scale) for at, text in tables]
        self.server = RpcServer(make(0, 1, KeySpace(keys), [JOB], tables=declared), lambda: 0, as_plain)
        self._turn = 0

    def _ask(self, op: Op, keys: Sequence[int], words: Any, flags: int, iteration: int = 0) -> bytes:
        self._turn += 1
        datagram = rpc(
            op, list(keys), words, job=JOB, worker=1, epoch=1, ps=0, seq=64 * self._turn, iteration=iteration,
            flags=flags,
        )  # fmt: skip
        answered = self.server.handle(datagram, 0, 0)
        assert answered is not None and unpack(answered[1]).refused == 0
        return answered[1]

    def push(self, keys: Sequence[int], units: Any, step: int) -> None:
        words = [int(unit) % 2**32 for unit in units]
        for at in range(0, len(keys), LANES):
            part = slice(at, at + LANES)
            self._ask(Op.PUSH, keys[part], words[part], KEYS | VALUES, step - 1)

    def set(self, keys: Sequence[int], values: Any, word: int = 0) -> None:
        bits = np.asarray(values, np.float32).view(np.uint32).tolist()
        self._ask(Op.PUSH, keys, bits, KEYS | VALUES | SET | word)

    def pull(self, keys: Sequence[int], word: int = 0) -> NDArray[np.float32]:
        values = codec.parse(self._ask(Op.PULL, keys, None, KEYS | word)).values
        assert values is not None
        return values.view(np.float32)


def served_as_torch(text: str, start: Any, steps: Sequence[torch_optimisers.Step]) -> list[Any]:
    served = Served([(0, text)], ROWS * DIM)
    served.set(range(ROWS * DIM), start.reshape(-1))
    found = []
    for number, step in enumerate(steps, start=1):
        keys = (step.rows[:, None] * DIM + np.arange(DIM)).reshape(-1)
        served.push(keys.tolist(), step.units.reshape(-1), number)
        found.append(served.pull(range(ROWS * DIM)).reshape(ROWS, DIM))
    return found


def check_alike(found: Sequence[Any], expected: Sequence[Any]) -> None:
    """Check values after each step; PyTorch may fuse a product and a sum, which rounds once less."""
    for number, (ours, theirs) in enumerate(zip(found, expected, strict=True), start=1):
        assert np.abs(ours - theirs).max() <= number * 2.0**-23 * max(1, np.abs(theirs).max())


@pytest.mark.parametrize("text", torch_optimisers.OPTIMISERS)
def test_a_step_of_each_optimiser_equals_pytorchs_recorded_step(text: str) -> None:
    found = served_as_torch(text, torch_optimisers.start(), torch_optimisers.steps())
    check_alike(found, torch_optimisers.vectors(text))


@pytest.mark.parametrize("text", torch_optimisers.OPTIMISERS)
def test_a_step_of_each_optimiser_equals_the_installed_pytorchs(text: str) -> None:
    pytest.importorskip("torch")  # not in requirements.lock; the committed vectors hold everywhere
    start, steps = torch_optimisers.start(), torch_optimisers.steps()
    asked = torch_optimisers.of_torch(text, start, steps)
    check_alike(asked, torch_optimisers.vectors(text))
    check_alike(served_as_torch(text, start, steps), asked)


@settings(max_examples=examples(60), deadline=None)
@given(text=st.sampled_from(TEXTS), seed=st.integers(0, 2**32))
def test_steps_of_optimisers_equal_a_plain_models_steps(text: str, seed: int) -> None:
    """Gradients are whole units, and keys may be twice in an RPC: each gradient is a step of its own."""
    random, served = np.random.default_rng(seed), Served([(0, text)], 8)
    begin = random.normal(size=8).astype(np.float32)
    served.set(range(8), begin)
    models = [ModelParameter(text, float(value)) for value in begin]
    for step in range(1, 20):
        keys = random.integers(0, 8, random.integers(1, 10))
        units = random.integers(-(2**14), 2**14, len(keys))
        served.push(keys.tolist(), units, step)
        for key, unit in zip(keys, units, strict=True):
            models[key].push(unit / SCALE, step)
    expected = np.array([model.value for model in models])
    assert np.abs(served.pull(range(8)) - expected).max() <= 2e-5 * (1 + np.abs(expected).max())


@settings(max_examples=examples(60), deadline=None)
@given(text=st.sampled_from(WITHOUT_L1), seed=st.integers(0, 2**32), is_tiny=st.booleans())
def test_rounding_of_gradients_moves_values_less_than_the_bound(text: str, seed: int, is_tiny: bool) -> None:
    """Of the model's bounds, which know only the unrounded gradients, with √v or √G less √t half units."""
    random, scale = np.random.default_rng(seed), 2.0**8
    served = Served([(0, text)], 8, scale)
    rounded = [ModelParameter(text, 0.0, half_unit=0.5 / scale) for _ in range(8)]
    exact = [ModelParameter(text, 0.0) for _ in range(8)]
    for step in range(1, 30):
        gradients = random.normal(scale=0.01 if is_tiny else 1, size=8)
        units = np.rint(gradients * scale)
        served.push(range(8), units, step)
        for key in range(8):
            exact[key].push(float(gradients[key]), step)
            rounded[key].push(float(units[key] / scale), step)
    for key, value in enumerate(served.pull(range(8)).tolist()):
        assert abs(value - exact[key].value) <= rounded[key].bound + 1e-4


@pytest.mark.parametrize("make", [make_values_server, make_server])
@pytest.mark.parametrize("text", TEXTS)
def test_plain_python_computes_the_same_bits_as_compiled_code(text: str, make: Callable[..., Any]) -> None:
    tables = [(0, None), (10, text), (40, "sgd(lr=1)")]
    beds = [Served(tables, 60, make=make, as_plain=as_plain) for as_plain in (False, True)]
    for served in beds:
        random = Random(5)
        for step in range(1, 4):
            keys = random.sample(range(60), 40)
            served.push(keys, [random.randrange(-(2**18), 2**18) for _ in keys], step)
    compiled, twin = (served.server.state for served in beds)
    assert compiled.cells.tobytes() == twin.cells.tobytes()
    assert compiled.jobs.applied_lanes.tolist() == twin.jobs.applied_lanes.tolist() == [120]


def test_each_table_has_its_own_rule_and_the_sums_of_gradients_are_exact() -> None:
    served = Served([(0, None), (4, "sgd(lr=0.5)"), (8, "adam"), (12, None)], 16, scale=2.0)
    served.push(range(16), [3] * 8 + [2**31 - 1] * 8, 1)
    served.push(range(16), [-1] * 8 + [5] * 8, 2)
    held = Store(served.server.state, JOB).contents()
    assert held.sums.view(np.int32).tolist() == [2] * 8 + [4 - 2**31] * 8
    assert held.updates.tolist() == [2] * 16
    assert served.pull(range(16)).view(np.int32)[:4].tolist() == [2] * 4
    assert served.pull(range(4, 8)).tolist() == [-0.5 * 2 / 2] * 4
    assert int(served.server.state.jobs[0].overflows) == 1


def test_words_are_set_and_read_and_a_set_value_restarts_the_state() -> None:
    served = Served([(0, "adagrad(initial=0.5)"), (4, "adam"), (8, None)], 12)
    keys = range(8)
    assert served.pull(keys, FIRST).tolist() == [0.5] * 4 + [0] * 4
    served.push(keys, [SCALE] * 8, 1)
    first, second = served.pull(keys, FIRST), served.pull(keys, SECOND)
    assert first.tolist()[:4] == [1.5] * 4 and first[4:] == pytest.approx([0.1] * 4)
    assert second.tolist()[:4] == [0] * 4 and second[4:] == pytest.approx([0.001] * 4)
    values = served.pull(keys)
    other = Served([(0, "adagrad(initial=0.5)"), (4, "adam"), (8, None)], 12)
    for word, saved in ((0, values), (FIRST, first), (SECOND, second)):
        other.set(keys, saved, word)
    for each in (served, other):
        each.push(keys, [7] * 8, 2)
    assert other.pull(keys).tobytes() == served.pull(keys).tobytes()
    served.set(keys, values)
    assert served.pull(keys, FIRST).tolist() == [0.5] * 4 + [0] * 4 and not served.pull(keys, SECOND).any()
    assert Store(other.server.state, JOB).contents().sums.tolist() == [7] * 8 + [0] * 4


def test_a_weight_that_is_set_is_ftrls_weight_of_its_state() -> None:
    text = "ftrl(alpha=0.5, l1=0.5, l2=0.25)"
    served = Served([(0, text)], 3)
    served.set(range(3), [1.5, -2.0, 0.0])
    served.push(range(3), [0, 0, 0], 1)
    assert served.pull(range(3)) == pytest.approx([1.5, -2.0, 0.0])


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("adagrad", "adagrad(lr=0.01, eps=1e-10, initial=0)"),
        (" sgd( lr = 2 ) ", "sgd(lr=2)"),
        ("ftrl(l1=1e-3)", "ftrl(alpha=0.1, beta=1, l1=0.001, l2=0)"),
        ("adam(beta2=0.99)", "adam(lr=0.001, beta1=0.9, beta2=0.99, eps=1e-08)"),
        ("sgd(lr=0.1234567890123)", "sgd(lr=0.1234567890123)"),
    ],
)
def test_an_optimiser_is_declared_by_its_text(text: str, shown: str) -> None:
    assert str(parse(text)) == shown
    assert parse(shown) == parse(text)
    declared = table(0, text, 2.0)
    assert TableOptimiser.model_validate_json(declared.model_dump_json()) == declared


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rmsprop", r"^expected sgd\(lr=0.1\), adagrad, ftrl or adam, with .* got 'rmsprop'$"),
        ("adagrad(0.1)", r"got 'adagrad\(0.1\)'$"),
        ("adagrad(lr=__import__('os'))", "^expected sgd"),
        ("(((", r"got '\(\(\('$"),
        ("sgd", r"^sgd: sgd expects lr$"),
        ("adam(rho=1)", r"^adam\(rho=1\): adam has no rho, but lr, beta1, beta2, eps$"),
        ("adagrad(lr=0)", "adagrad lr: Input should be greater than 0$"),
        ("adam(beta1=1)", "adam beta1: Input should be less than 1$"),
        ("adagrad(eps=0)", "adagrad eps and initial are 0: a gradient of 0 would make a parameter NaN$"),
    ],
)
def test_an_invalid_declaration_of_an_optimiser_is_refused(text: str, message: str) -> None:
    with pytest.raises(OptimiserError, match=message) as raised:
        parse(text)
    assert isinstance(raised.value, HotlineError)
