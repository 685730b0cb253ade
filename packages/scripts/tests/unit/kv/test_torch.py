"""Compare `hotline.torch.EmbeddingBag` with PyTorch's, within fixed-point error (needs the extra `torch`)."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hotline
from hotline_scripts.kv.calls import InvalidArgument
from hotline_scripts.kv.engine import InvalidCall
from hotline_scripts.kv.worker import Worker
from switch_harness.wording import mentions
from tests.harness.extras import NO_TORCH
from tests.harness.loopback import running_rendezvous
from tests.harness.torch_optimisers import torch_optimiser

torch = pytest.importorskip("torch", reason=NO_TORCH)

ROWS, DIM, SCALE = 40, 3, 2.0**12
F32 = np.float32


@pytest.fixture
def kv(tmp_path: Path) -> Iterator[Worker]:
    with running_rendezvous(tmp_path, size=1) as running, worker(running.place) as kv:
        kv.init(weights())
        yield kv


def worker(place: Path) -> Worker:
    return Worker({"rows": (ROWS, DIM)}, SCALE, connect=place)


def weights() -> Any:
    """Return whole units, which servers hold exactly."""
    return (np.random.default_rng(3).integers(-4000, 4000, (ROWS, DIM)) / SCALE).astype(F32)


def bag(kv: Worker, lr: float = 0.1, **more: Any) -> Any:
    return hotline.torch.EmbeddingBag(ROWS, DIM, kv=kv, lr=lr, **more)


def plain(**more: Any) -> Any:
    return torch.nn.EmbeddingBag(ROWS, DIM, _weight=torch.tensor(weights()), sparse=True, **more)


def sgd(reference: Any, lr: float = 0.1) -> Any:
    return torch.optim.SGD(reference.parameters(), lr=lr)


def ints(*values: int) -> Any:
    return torch.tensor(values, dtype=torch.int64)


class Bags:
    """Mini-batches of bags of 0 to 5 keys with duplicates, and the targets of their predictions."""

    HEAD = (0.8, -0.36, 0.48)
    """Weights of length 1: a bag times these is the prediction."""
    LARGEST = 5

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self.head = torch.tensor(self.HEAD)

    def draw(self, bags: int = 16) -> tuple[Any, Any, Any]:
        """Draw input, offsets and targets: the true weight of each key, plus noise."""
        sizes = self._random.integers(0, self.LARGEST + 1, bags)
        keys = self._random.integers(0, ROWS, sizes.sum())
        offsets = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        sums = np.add.reduceat(np.append(np.sin(keys), 0), offsets) * (sizes > 0)
        targets = sums + self._random.normal(0, 0.5, bags)
        return torch.tensor(keys), torch.tensor(offsets), torch.tensor(targets, dtype=torch.float32)

    def loss(self, model: Any, batch: tuple[Any, Any, Any]) -> Any:
        keys, offsets, targets = batch
        return ((model(keys, offsets) @ self.head - targets) ** 2).mean()


@pytest.mark.parametrize("prefetches", [False, True])
@pytest.mark.parametrize(("mode", "lr"), [("sum", 1 / Bags.LARGEST**2), ("mean", 1.0)])
def test_one_worker_trains_step_for_step_as_pytorch(
    kv: Worker, mode: str, lr: float, prefetches: bool
) -> None:
    """The loss is quadratic: a step takes an error e of the rows to (I - lr·H)·e, and adds that of the push.

    The gradient `a` of a bag's prediction by its rows has a length of at most 1 (mean) or 5 (sum). H is the
    mean of 2·a·aᵀ, so lr·H lies between 0 and 2, and e does not grow. A push rounds each of its n values by
    half a unit: √n/2 units in length. Errors of float32, 2⁻²⁴ of numbers around 1, are below 5 % of that.
    """
    bags, ours, reference = Bags(7), bag(kv, lr, mode=mode), plain(mode=mode)
    optimiser, bound = sgd(reference, lr), 0.0
    batches = [bags.draw() for _ in range(40)]
    for step, batch in enumerate(batches):
        optimiser.zero_grad()
        bags.loss(reference, batch).backward()
        optimiser.step()
        bags.loss(ours, batch).backward()
        if prefetches and step + 1 < len(batches):
            ours.prefetch(batches[step + 1][0])
        bound += 1.05 * np.sqrt(len(batch[0].unique()) * DIM) / 2 / SCALE
        error = np.linalg.norm(kv.read() - reference.weight.detach().numpy())
        assert error <= bound, f"step {step}"
    assert np.linalg.norm(kv.read() - weights()) > 20 * bound


@pytest.mark.parametrize("text", ["sgd(lr=0.04)", "adagrad(lr=0.1)", "adam(lr=0.05)"])
def test_one_worker_trains_as_pytorchs_optimisers(tmp_path: Path, text: str) -> None:
    """Gradients are rounded by at most 2⁻²², which changes a row by less than 4 · 2⁻²² in each push."""
    with (
        running_rendezvous(tmp_path, size=1) as running,
        hotline.Worker({"rows": (ROWS, DIM)}, 2.0**21, running.place, optimiser=text) as kv,
    ):
        kv.init(weights())
        bags, reference = Bags(7), plain(mode="sum")
        ours = hotline.torch.EmbeddingBag(ROWS, DIM, mode="sum", kv=kv)
        optimiser = torch_optimiser(text, reference.weight)
        for batch in [bags.draw() for _ in range(30)]:
            optimiser.zero_grad()
            bags.loss(reference, batch).backward()
            with torch.sparse.check_sparse_tensor_invariants():  # PyTorch warns without
                optimiser.step()
            bags.loss(ours, batch).backward()
        assert np.abs(kv.read() - reference.weight.detach().numpy()).max() < 1e-4
        assert np.abs(kv.read() - weights()).max() > 0.1
        for wrong, message in (({"lr": 0.1}, r"lr None, as .* got 0\.1"), ({"mode": "max"}, "got 'max'")):
            with pytest.raises(InvalidCall, match=message):
                hotline.torch.EmbeddingBag(ROWS, DIM, kv=kv, **wrong)


KEYS = ints(3, 1, 3, 39, 0, 0, 7)
WEIGHTS = (0.5, -1.0, 2.0, 0.25, 1.0, -3.0, 0.125)
CASES: dict[str, tuple[dict[str, Any], list[Any], dict[str, Any]]] = {
    "two dimensions": ({}, [KEYS[:6].reshape(2, 3)], {}),
    "empty bags": ({"mode": "mean"}, [KEYS, ints(0, 0, 4, 7)], {}),
    "all bags empty": ({"mode": "sum"}, [ints(), ints(0, 0, 0)], {}),
    "no bags": ({}, [ints(), ints()], {}),
    "int32": ({"mode": "sum"}, [KEYS.int(), ints(0, 5).int()], {}),
    "weights": ({"mode": "sum"}, [KEYS, ints(0, 3)], {"per_sample_weights": torch.tensor(WEIGHTS)}),
    "padding": ({"mode": "mean", "padding_idx": 3}, [KEYS, ints(0, 2)], {}),
    "padding from the end": ({"mode": "sum", "padding_idx": -1}, [KEYS, ints(0, 2)], {}),
    "padding alone": ({"mode": "mean", "padding_idx": 3}, [ints(3, 3), ints(0)], {}),
    "padding that is not there": ({"mode": "mean", "padding_idx": 20}, [KEYS, ints(0, 2)], {}),
    "last offset": ({"mode": "sum", "include_last_offset": True}, [KEYS, ints(0, 2, 7)], {}),
}


@pytest.mark.parametrize("name", CASES)
def test_a_step_of_any_shape_equals_pytorchs(kv: Worker, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Bags are equal to the bit, rows within half a unit. A row is pushed once, and only if it is trained."""
    settings, inputs, more = CASES[name]
    pushed: list[int] = []
    push = kv.push

    def recording_push(keys: Any, *rest: Any) -> int:
        pushed.extend(keys.tolist())
        return push(keys, *rest)

    monkeypatch.setattr(kv, "push", recording_push)
    ours, reference = bag(kv, **settings), plain(**settings)
    found, expected = ours(*inputs, **more), reference(*inputs, **more)
    assert torch.equal(found, expected)
    for out, optimiser in ((found, None), (expected, sgd(reference))):
        (out * torch.arange(1, 1 + out.numel()).reshape(out.shape)).sum().backward()
        if optimiser:
            optimiser.step()
    wanted = reference.weight.detach().numpy()
    assert (np.abs(kv.read() - wanted) <= 0.5 / SCALE + 2.0**-20).all()
    assert pushed == np.flatnonzero((wanted != weights()).any(1)).tolist()


def test_weights_of_samples_have_gradients(kv: Worker) -> None:
    found = []
    for model in (bag(kv, mode="sum"), plain(mode="sum")):
        samples = torch.tensor(WEIGHTS, requires_grad=True)
        (model(KEYS, ints(0, 3), samples) ** 2).sum().backward()
        found.append(samples.grad)
    assert torch.equal(*found)


def test_four_asynchronous_workers_reach_pytorchs_loss(tmp_path: Path) -> None:
    """Both have seen the same mini-batches once; their targets have noise, so no loss is 0."""
    steps, lr = 120, 0.04
    reference, bags = plain(mode="sum"), Bags(1)
    optimiser, evaluation = sgd(reference, lr), Bags(99).draw(4000)
    shares = [[bags.draw() for _ in range(steps)] for _ in range(4)]
    before = bags.loss(reference, evaluation).item()
    for batch in chain.from_iterable(zip(*shares, strict=True)):
        optimiser.zero_grad()
        bags.loss(reference, batch).backward()
        optimiser.step()
    with running_rendezvous(tmp_path, size=4) as running, ExitStack() as stack:
        workers = [stack.enter_context(worker(running.place)) for _ in range(4)]

        def train(kv: Worker) -> Any:
            kv.init(weights())
            kv.barrier()
            share, model = shares[kv.rank], bag(kv, lr, mode="sum")
            for batch, next_batch in zip(share, [*share[1:], None], strict=True):
                if next_batch:
                    model.prefetch(next_batch[0])  # before the push of this step
                bags.loss(model, batch).backward()
            kv.barrier()
            with torch.no_grad():
                return bags.loss(model, evaluation).item()

        with ThreadPoolExecutor(4) as pool:
            losses = list(pool.map(train, workers))
    assert len(set(losses)) == 1  # all workers read the same model
    expected = bags.loss(reference, evaluation).item()
    assert expected < before / 5
    assert losses[0] == pytest.approx(expected, rel=0.02)


def test_rows_are_pulled_at_the_time_of_their_prefetch(kv: Worker) -> None:
    ours = bag(kv, mode="sum")
    soon, later = ints(1, 2), ints(2, 5)
    for input in (soon, later, soon):
        ours.prefetch(input)
    kv.push([2, 9], np.ones((2, DIM), F32))
    soon[0] = 3  # the prefetch has the keys from before
    stored = weights()
    with torch.no_grad():
        assert ours(ints(9), ints(0)).tolist() == [(stored[9] + 1).tolist()]  # not prefetched
        assert ours(later, ints(0)).tolist() == [(stored[2] + stored[5]).tolist()]
        assert ours(ints(1, 2), ints(0)).tolist() == [(stored[1] + stored[2]).tolist()]
        assert ours(ints(1, 2), ints(0)).tolist() == [(stored[1] + stored[2] + 1).tolist()]
    for _ in range(64):
        ours.prefetch(soon)
    with pytest.raises(InvalidCall, match="prefetch: 64 inputs"):
        ours.prefetch(soon)


def test_each_backward_is_a_step_at_the_current_rate(kv: Worker) -> None:
    ours = bag(kv, 0.5, mode="sum")
    loss = ours(ints(4, 4), ints(0)).sum() + 2 * ours(ints(4), ints(0)).sum()
    loss.backward(retain_graph=True)
    assert (kv.read() - weights())[4].tolist() == [-2.0] * DIM
    ours.lr = 1.0
    loss.backward()
    assert (kv.read() - weights())[4].tolist() == [-6.0] * DIM
    out = ours(ints(4), ints(0))
    out.register_hook(lambda gradient: gradient.clamp(-1, 1))
    (100 * out).sum().backward()
    assert (kv.read() - weights())[4].tolist() == [-7.0] * DIM
    with torch.no_grad():
        assert not ours(ints(4), ints(0)).requires_grad
    assert list(ours.parameters()) == [] and "40, 3, mode='sum', table='rows'" in repr(ours)


def test_a_gradient_that_is_not_finite_is_raised_by_backward_and_not_pushed(kv: Worker) -> None:
    ours = bag(kv, mode="sum")
    with pytest.raises(InvalidArgument, match=r"rows.*nan"):
        (ours(ints(4), ints(0)) * float("nan")).sum().backward()
    assert (kv.read() == weights()).all()


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"max_norm": 1.0}, "max_norm None, got 1.0"),
    ({"scale_grad_by_freq": True}, "scale_grad_by_freq"),
    ({"mode": "max"}, "'sum' or 'mean', got 'max'"),
    ({"sparse": False}, "sparse True, got False"),
    ({"_weight": torch.zeros(ROWS, DIM)}, r"_weight.*kv\.init"),
    ({"padding_idx": ROWS}, "padding_idx .* got 40"),
    ({"device": "meta"}, "device cpu, got 'meta'"),
    ({"dtype": torch.float64}, r"torch\.float32, got torch\.float64"),
    ({"lr": -1.0}, r"lr of at least 0, got -1\.0"),
    ({"lr": float("nan")}, "lr of at least 0, got nan"),
    ({"num_embeddings": 41}, "num_embeddings 40, .* got 41"),
    ({"embedding_dim": 4}, "embedding_dim 3, .* got 4"),
]


@pytest.mark.parametrize(("wrong", "reported"), REFUSED)
def test_arguments_that_servers_cannot_fulfil_are_refused_by_name(
    kv: Worker, wrong: dict[str, Any], reported: str
) -> None:
    given = {"num_embeddings": ROWS, "embedding_dim": DIM, "kv": kv, "lr": 0.1, **wrong}
    with pytest.raises(InvalidCall, match=f"rows: .*{reported}"):
        hotline.torch.EmbeddingBag(**given)


@pytest.mark.parametrize(
    ("input", "reported"),
    [
        (ints(4, 40, -1), r"input\[1\] is 40, expected 0\.\.39"),
        (ints(4, 3, 2, -1).reshape(2, 2), r"input\[1, 1\] is -1"),
        (torch.ones(2), r"int32 or int64 .* torch\.float32"),
        ([1, 2], r"int32 or int64 .* \[1, 2\]"),
    ],
)
def test_invalid_inputs_are_named(kv: Worker, input: Any, reported: str) -> None:
    ours = bag(kv)
    ours.prefetch(ints(1))
    for call in (ours, ours.prefetch):
        with pytest.raises(InvalidArgument, match=f"table rows: .*{reported}"):
            call(input)


def test_a_state_dict_says_where_the_rows_are(kv: Worker) -> None:
    model = torch.nn.Sequential(bag(kv), torch.nn.Linear(DIM, 1))
    with pytest.warns(UserWarning, match=mentions("table rows", "kv.save", "kv.load")) as warned:
        state = model.state_dict()
    assert len(warned) == 1 and sorted(state) == ["1.bias", "1.weight"]
    assert model.load_state_dict(state).missing_keys == []


def test_rows_of_a_state_dict_are_not_loaded_without_a_word(kv: Worker) -> None:
    model = torch.nn.Sequential(bag(kv), torch.nn.Linear(DIM, 1))
    state = torch.nn.Sequential(plain(), torch.nn.Linear(DIM, 1)).state_dict()
    state["0.weight"] += 1
    with pytest.warns(UserWarning, match=mentions("table rows", "0.weight", "kv.init")) as warned:
        model.load_state_dict(state, strict=False)
    assert warned[0].filename == __file__ and (kv.read() == weights()).all()
    assert torch.equal(model[1].weight, state["1.weight"])
    with pytest.warns(UserWarning), pytest.raises(RuntimeError, match=r"Unexpected key.*0\.weight"):
        model.load_state_dict(state)


def test_a_whole_model_is_not_saved(kv: Worker, tmp_path: Path) -> None:
    with pytest.raises(InvalidCall, match=mentions("pickled", "kv.save", "state_dict")):
        torch.save(torch.nn.Sequential(bag(kv)), tmp_path / "model.pt")


def test_a_deep_copy_uses_the_same_rows_and_nothing_else(kv: Worker) -> None:
    ours = bag(kv, mode="sum")
    ours.prefetch(ints(1, 2))
    model = torch.nn.Sequential(ours, torch.nn.Linear(DIM, 1))
    copied = copy.deepcopy(model)
    other = copied[0]
    assert other is not ours and other.kv is kv and not other._pulls and len(ours._pulls) == 1
    assert other.extra_repr() == ours.extra_repr() and copied[1].weight is not model[1].weight
    other.lr = 1.0
    assert ours.lr == 0.1
    other.register_forward_hook(lambda *_: None)
    assert not ours._forward_hooks
    other(ints(3), ints(0)).sum().backward()
    kv.wait(kv.push(ints(0).numpy(), np.zeros((1, DIM), F32)))
    with torch.no_grad():
        assert np.array_equal(ours(ints(3), ints(0)).numpy()[0], weights()[3] - 1)
