"""Checks of the arguments of layers, before anything is pulled or pushed."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from foundation.text import show
from hotline_scripts.embedding_tables import EmbeddingTable
from hotline_scripts.kv.calls import InvalidArgument

_INTEGERS = (torch.int32, torch.int64)


def find_refusal(arguments: dict[str, Any], table: EmbeddingTable) -> str | None:
    """Return why `EmbeddingBag` cannot take its arguments, by name; None if it can."""
    sizes = {"num_embeddings": table.rows, "embedding_dim": table.dim}
    for name, size in sizes.items():
        if not _is_integer(arguments[name]) or arguments[name] != size:
            return f"expected {name} {size}, as the table has, got {show(arguments[name])}"
    expected_values = {
        "max_norm": (None, "servers only add to rows"),
        "scale_grad_by_freq": (False, "servers only add to rows"),
        "sparse": (True, "only rows that are used are pushed"),
        "_weight": (None, "rows are at the servers; kv.init sets them"),
    }
    for name, (expected, reason) in expected_values.items():
        if arguments[name] is not expected:
            return f"expected {name} {expected}, got {show(arguments[name])}: {reason}"
    mode, padding_idx, dtype = arguments["mode"], arguments["padding_idx"], arguments["dtype"]
    if not isinstance(mode, str) or mode not in ("sum", "mean"):
        return f"expected mode 'sum' or 'mean', got {show(mode)}"
    if not isinstance(arguments["include_last_offset"], bool):
        return f"expected include_last_offset True or False, got {show(arguments['include_last_offset'])}"
    if padding_idx is not None and not (_is_integer(padding_idx) and -table.rows <= padding_idx < table.rows):
        return f"expected padding_idx as a row of {table.rows}, got {show(padding_idx)}"
    if not _is_cpu(arguments["device"]):
        return f"expected device cpu, got {show(arguments['device'])}: move what forward returns"
    if dtype is not None and dtype is not torch.float32:
        return f"expected dtype torch.float32, got {show(dtype)}"
    return None


def check_input(input: Any, table: EmbeddingTable) -> None:
    if not _is_plain(input, *_INTEGERS) or input.dim() not in (1, 2):
        raise InvalidArgument(
            f"table {table.name}: expected an input of int32 or int64 on the CPU, of one or two dimensions, "
            f"got {_describe(input)}"
        )
    invalid_indices = ((input < 0) | (input >= table.rows)).nonzero()
    if len(invalid_indices):
        first_index = invalid_indices[0].tolist()
        raise InvalidArgument(
            f"table {table.name}: input{first_index} is {int(input[tuple(first_index)])}, "
            f"expected 0..{table.rows - 1}"
        )


def check_offsets(offsets: Any, input: Tensor, table: EmbeddingTable, has_last: bool) -> None:
    """Check the first index of each bag [bags] in a one-dimensional input; `has_last` adds the end."""
    if input.dim() == 2:
        if offsets is not None:
            raise InvalidArgument(
                f"table {table.name}: expected offsets None for an input of two dimensions, "
                f"got {_describe(offsets)}"
            )
        return
    keys = len(input)
    if not _is_plain(offsets, *_INTEGERS) or offsets.dim() != 1 or (has_last and not len(offsets)):
        raise InvalidArgument(
            f"table {table.name}: expected offsets of int32 or int64 on the CPU, of one dimension, "
            f"got {_describe(offsets)}"
        )
    values = offsets.tolist()
    has_valid_end = not values or (values[-1] == keys if has_last else values[-1] <= keys)
    if values != sorted(values) or values[:1] not in ([], [0]) or not has_valid_end:
        limit = f"to {keys}" if has_last else f"up to {keys}"
        raise InvalidArgument(
            f"table {table.name}: expected ascending offsets from 0 {limit}, got {show(values)}"
        )


def check_weights(weights: Any, input: Tensor, table: EmbeddingTable, mode: str) -> None:
    if weights is None:
        return
    if mode != "sum":
        raise InvalidArgument(
            f"table {table.name}: expected per_sample_weights None in mode {mode!r}, got {_describe(weights)}"
        )
    if not _is_plain(weights, torch.float32) or weights.shape != input.shape:
        raise InvalidArgument(
            f"table {table.name}: expected per_sample_weights of float32 on the CPU, "
            f"of shape {tuple(input.shape)}, got {_describe(weights)}"
        )


def _is_integer(number: object) -> bool:
    return isinstance(number, int | np.integer) and not isinstance(number, bool)


def _is_cpu(device: Any) -> bool:
    try:
        return device is None or torch.device(device).type == "cpu"
    except Exception:  # PyTorch raises several kinds for what is no device
        return False


def _is_plain(tensor: Any, *dtypes: torch.dtype) -> bool:
    """Return whether an argument is a dense tensor on the CPU, of one of these types."""
    is_dense = isinstance(tensor, Tensor) and tensor.layout == torch.strided
    return is_dense and tensor.dtype in dtypes and tensor.is_cpu


def _describe(argument: Any) -> str:
    if isinstance(argument, Tensor):
        return f"a tensor of {argument.dtype} {tuple(argument.shape)} on {argument.device}"
    return show(argument)
