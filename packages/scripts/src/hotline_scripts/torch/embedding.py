"""`hotline.torch.EmbeddingBag`, an embedding bag whose rows are stored at the parameter servers."""

from __future__ import annotations

import warnings
from copy import deepcopy
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from foundation.text import show
from hotline_scripts.kv.calls import InvalidArgument, check_number
from hotline_scripts.kv.engine import InvalidCall
from hotline_scripts.kv.worker import Worker
from hotline_scripts.torch.arguments import check_input, check_offsets, check_weights, find_refusal

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
        if not isinstance(kv, Worker):
            raise InvalidCall(f"EmbeddingBag: expected a hotline.Worker as kv, got {show(kv)}")
        kv_table = self._kv_table = kv.tables.find_table(table)
        self.kv, self.table, self._optimiser = kv, kv_table.name, kv_table.optimiser
        self.num_embeddings, self.embedding_dim = kv_table.rows, kv_table.dim
        arguments = {
            "num_embeddings": num_embeddings, "embedding_dim": embedding_dim, "max_norm": max_norm,
            "scale_grad_by_freq": scale_grad_by_freq, "mode": mode, "sparse": sparse, "_weight": _weight,
            "include_last_offset": include_last_offset, "padding_idx": padding_idx, "device": device,
            "dtype": dtype,
        }  # fmt: skip
        if (refusal := find_refusal(arguments, kv_table)) is not None:
            raise self._invalid_call(refusal)
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
                raise self._invalid_call(
                    f"expected lr None, as {self._optimiser} has the rate, got {show(lr)}"
                )
        elif lr is None:
            raise self._invalid_call("expected lr, or a table with an optimiser, got None")
        self._lr = None if lr is None else self._check_lr(lr)

    def _check_lr(self, lr: Any) -> float:
        try:
            if (number := check_number(lr, "lr")) >= 0:
                return number
        except InvalidArgument:  # the error below says the same, and more
            pass
        raise self._invalid_call(f"expected a finite lr of at least 0, got {show(lr)}")

    def prefetch(self, input: Tensor) -> None:
        """Begin to pull the rows of an input for `forward`, with their present values; return at once."""
        check_input(input, self._kv_table)
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
        check_input(input, self._kv_table)
        check_offsets(offsets, input, self._kv_table, self.include_last_offset)
        check_weights(per_sample_weights, input, self._kv_table, self.mode)
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

    def __deepcopy__(self, memo: dict[int, Any]) -> EmbeddingBag:
        """Return another layer of the same rows, which are at the servers, without prefetched inputs."""
        copied = type(self).__new__(type(self))
        memo |= {id(self): copied, id(self.kv): self.kv, id(self._pulls): []}
        copied.__dict__.update(deepcopy(self.__dict__, memo))
        return copied

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        warnings.warn(
            f"EmbeddingBag of table {self.table}: state_dict has no rows, which are at the servers; kv.save "
            "and kv.load keep them",
            stacklevel=4,  # the caller of state_dict
        )

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *more: Any) -> None:
        super()._load_from_state_dict(state_dict, prefix, *more)
        if f"{prefix}weight" in state_dict:
            warnings.warn(
                f"EmbeddingBag of table {self.table}: load_state_dict sets no rows, as they are at servers, "
                f"so {prefix}weight is not loaded; kv.init sets them",
                stacklevel=5,  # the caller of a model's load_state_dict
            )

    def extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}, mode={self.mode!r}, table={self.table!r}"

    def _take_prefetched(self, input: Tensor) -> _Pull | None:
        for index, pull in enumerate(self._pulls):
            if input.dtype == pull.input.dtype and torch.equal(input, pull.input):
                # Inputs prefetched before this one have been skipped.
                del self._pulls[: index + 1]
                return pull
        return None

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
