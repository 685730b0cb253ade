"""`hotline.torch.EmbeddingBag`, an embedding bag whose rows are stored at the parameter servers."""

from __future__ import annotations

from functools import partial
from math import isfinite
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from hotline.kv.calls import InvalidArgument
from hotline.kv.engine import InvalidCall
from hotline.kv.worker import Worker

MAX_PREFETCHED = 64


class _Pull(NamedTuple):
    input: Tensor
    keys: Tensor  # ascending keys [rows], each once
    positions: Tensor  # index in `keys` of each key of the input, in the input's shape
    rows: Tensor  # float32 [rows, dim], complete when `wait` returns
    ts: int  # number of the operation, for `Worker.wait`


class EmbeddingBag(torch.nn.Module):  # type: ignore[misc]  # where PyTorch is not installed it has no type
    """`torch.nn.EmbeddingBag` of a worker's table: rows are pulled, and their gradients are pushed.

        kv = hotline.Worker(tables={"users": (10_000, 16)})
        kv.init(torch.randn(10_000, 16).numpy(), "users")
        users = hotline.torch.EmbeddingBag(10_000, 16, mode="sum", kv=kv, table="users", lr=0.1)
        out = users(input, offsets)     # [bags, 16]
        out.sum().backward()            # pushes

    Arguments, inputs and outputs are PyTorch's, on the CPU. Arguments that servers cannot support
    raise `InvalidCall`. `kv.init` initialises the table and `kv.read` reads it: there is no `weight`, and
    PyTorch's optimisers do not see the rows.

    Each `backward` immediately updates the rows: by the table's optimiser at the servers, or else by SGD,
    for which -`lr` times the gradient is pushed. Gradients of the same row are added up before they
    are pushed, and the pushes of several workers at the servers. So neither momentum nor changes of gradients
    after `backward`, such as by `clip_grad_norm_`, reach the rows: clip in a hook of the output
    (`out.register_hook`).
    """

    def __init__(
        self, num_embeddings: int, embedding_dim: int, max_norm: float | None = None, norm_type: float = 2.0,
        scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = True,
        _weight: Tensor | None = None, include_last_offset: bool = False, padding_idx: int | None = None,
        device: Any = None, dtype: Any = None, *, kv: Worker, lr: float | None = None,
        table: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        kv_table = kv.tables.find_table(table)
        self.kv, self.table, self._optimiser = kv, kv_table.name, kv_table.optimiser
        self.num_embeddings, self.embedding_dim = kv_table.rows, kv_table.dim
        for is_invalid, message in (
            (
                (num_embeddings, embedding_dim) != (kv_table.rows, kv_table.dim),
                f"{num_embeddings!r} × {embedding_dim!r}: the table is {kv_table.rows} × {kv_table.dim}",
            ),
            (max_norm is not None, f"expected max_norm None, got {max_norm}: servers only add to rows"),
            (scale_grad_by_freq, f"expected scale_grad_by_freq False, got {scale_grad_by_freq}"),
            (mode not in ("sum", "mean"), f"expected mode 'sum' or 'mean', got {mode!r}"),
            (not sparse, f"expected sparse True, got {sparse}: only rows that are used are pushed"),
            (_weight is not None, "_weight: rows are at the servers; kv.init sets them"),
            (
                padding_idx is not None and not -kv_table.rows <= padding_idx < kv_table.rows,
                f"padding_idx = {padding_idx}: the table has {kv_table.rows} rows",
            ),
            (
                torch.device(device or "cpu").type != "cpu",
                f"device = {device}: rows come to the CPU; move what forward returns",
            ),
            (dtype not in (None, torch.float32), f"expected dtype torch.float32, got {dtype}"),
        ):
            if is_invalid:
                raise self._invalid_call(message)
        self.mode, self.include_last_offset = mode, include_last_offset
        self.padding_idx = None if padding_idx is None else padding_idx % kv_table.rows
        self.lr = lr
        self._pulls: list[_Pull] = []

    @property
    def lr(self) -> float | None:
        """Learning rate of later pushes, None with an optimiser; a scheduler may set it at any time."""
        return self._lr

    @lr.setter
    def lr(self, lr: float | None) -> None:
        if self._optimiser is not None:
            if lr is not None:
                raise self._invalid_call(f"lr={lr!r} and {self._optimiser}, which has the rate; leave lr out")
        elif lr is None:
            raise self._invalid_call("expected lr, or a table with an optimiser")
        elif not isfinite(lr) or lr < 0:
            raise self._invalid_call(f"expected a finite lr of at least 0, got {lr!r}")
        self._lr = None if lr is None else float(lr)

    def prefetch(self, input: Tensor) -> None:
        """Begin to pull the rows of an input for `forward`, with their present values; return at once."""
        self._check_input(input)
        if len(self._pulls) == MAX_PREFETCHED:
            raise self._invalid_call(
                f"prefetch: {MAX_PREFETCHED} inputs are prefetched; first call forward with one of them"
            )
        self._pulls.append(self._pull(input))

    def forward(
        self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None
    ) -> Tensor:
        """Return the bags [bags, dim], after a wait for the rows, which are pulled unless prefetched.

        Keys are int32 or int64; a bag may be empty, or have a key twice.
        """
        self._check_input(input)
        pull = self._take_prefetched(input) or self._pull(input)
        self.kv.wait(pull.ts)
        rows = pull.rows.requires_grad_()
        rows.register_hook(partial(self._push, pull.keys))
        padding: Any = () if self.padding_idx is None else (pull.keys == self.padding_idx).nonzero()
        return functional.embedding_bag(
            pull.positions, rows, None if offsets is None else offsets.long(), mode=self.mode,
            per_sample_weights=per_sample_weights, include_last_offset=self.include_last_offset,
            padding_idx=int(padding[0]) if len(padding) else None,
        )  # fmt: skip

    def extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}, mode={self.mode!r}, table={self.table!r}"

    def _take_prefetched(self, input: Tensor) -> _Pull | None:
        for index, pull in enumerate(self._pulls):
            if input.dtype == pull.input.dtype and torch.equal(input, pull.input):
                # Inputs prefetched before this one have been skipped.
                del self._pulls[: index + 1]
                return pull
        return None

    def _check_input(self, input: Any) -> None:
        if not isinstance(input, Tensor) or input.dtype not in (torch.int32, torch.int64) or not input.is_cpu:
            description = (
                f"{input.dtype} on {input.device}" if isinstance(input, Tensor) else type(input).__name__
            )
            raise InvalidArgument(
                f"table {self.table}: expected an input of int32 or int64 on the CPU, got {description}"
            )
        invalid_indices = ((input < 0) | (input >= self.num_embeddings)).nonzero()
        if len(invalid_indices):
            first_index, last_key = invalid_indices[0].tolist(), self.num_embeddings - 1
            raise InvalidArgument(
                f"table {self.table}: input{first_index} is {int(input[tuple(first_index)])}, "
                f"expected 0..{last_key}"
            )

    def _pull(self, input: Tensor) -> _Pull:
        keys, positions = torch.unique(input, return_inverse=True)
        rows = torch.empty(len(keys), self.embedding_dim)
        ts = self.kv.pull(keys.numpy(), rows.numpy(), self.table)
        return _Pull(input.clone(), keys, positions, rows, ts)

    def _push(self, keys: Tensor, gradient: Tensor) -> None:
        """Push the gradient, which `backward` has summed over all uses of these rows, or -`lr` times it."""
        deltas = gradient.detach()
        if self._lr is not None:
            deltas = deltas * -self._lr
        if self.padding_idx is not None:
            is_trained = keys != self.padding_idx
            keys, deltas = keys[is_trained], deltas[is_trained]
        self.kv.push(keys.numpy(), deltas.numpy(), self.table)

    def _invalid_call(self, message: str) -> InvalidCall:
        return InvalidCall(f"EmbeddingBag of table {self.table}: {message}")
