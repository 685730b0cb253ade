"""Timing of a PyTorch model's layers with hooks, as in [BOTTLENECK], but of all gradients in one pass."""

from __future__ import annotations

import os
import runpy
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np
from pydantic import Field

from foundation.optional import MissingPackage, import_torch
from foundation.settings import Strict
from foundation.text import one_line
from hotline_dense import DenseError
from hotline_dense.layers import Layers

EXPECTED = (
    "expected a script with `model`, a torch.nn.Module, and `loss()`, which runs it forward on a mini-batch"
)
_US_PER_S = 1e6


class _Loss(Protocol):
    def backward(self) -> None: ...


class _Tensor(Protocol):
    @property
    def is_sparse(self) -> bool: ...
    def numel(self) -> int: ...
    def element_size(self) -> int: ...
    def _indices(self) -> _Tensor: ...
    def _values(self) -> _Tensor: ...


class _Parameter(Protocol):
    """The part of torch.nn.Parameter used here; PyTorch is not installed where types are checked."""

    grad: _Tensor | None
    requires_grad: bool

    @property
    def device(self) -> _Device: ...
    def register_post_accumulate_grad_hook(self, hook: Callable[[object], None]) -> _Handle: ...


class _Module(Protocol):
    def named_parameters(self, recurse: bool = True) -> Iterable[tuple[str, _Parameter]]: ...
    def named_modules(self) -> Iterable[tuple[str, _Module]]: ...
    def register_forward_hook(self, hook: Callable[..., None]) -> _Handle: ...


class _Device(Protocol):
    @property
    def type(self) -> str: ...


class _Handle(Protocol):
    def remove(self) -> None: ...


class TimingSettings(Strict):
    steps: int = Field(default=10, ge=1, le=10_000)
    """Number of timed steps."""
    warm_up: int = Field(default=3, ge=0, le=10_000)
    """Number of untimed steps before the timed steps."""


def layers_of_script(
    script: Path, steps: int, warm_up: int, progress: Callable[[int, int], None] = lambda done, total: None,
    arguments: Sequence[str] = (),
) -> Layers:  # fmt: skip
    """Run a Python file, and time its model; raise `DenseError` for a script without `model` and `loss`.

    The script sees `arguments` and modules beside it as if it were run by `python SCRIPT ARGUMENTS`.
    """
    if not script.is_file():
        raise DenseError(f"{script}: No such file; {EXPECTED}")
    try:
        torch = import_torch()
    except MissingPackage as error:
        raise MissingPackage(f"{script}: {error}") from error
    with _as_main_script(script, arguments):
        try:
            namespace = runpy.run_path(str(script))
        except (Exception, SystemExit) as error:  # argparse exits
            raise DenseError(f"{script}: {type(error).__name__}: {one_line(str(error))}") from error
        if not isinstance(namespace.get("model"), torch.nn.Module) or not callable(namespace.get("loss")):
            raise DenseError(f"{script}: {EXPECTED}")
        return layers_of(namespace["model"], namespace["loss"], steps, warm_up, progress)


@contextmanager
def _as_main_script(script: Path, arguments: Sequence[str]) -> Iterator[None]:
    """Set what `python SCRIPT ARGUMENTS` sets for its script, and restore it and the modules afterwards."""
    folder = str(script.resolve().parent)
    argv, path, modules = sys.argv, sys.path, set(sys.modules)
    sys.argv, sys.path = [str(script), *arguments], [folder, *path]
    try:
        yield
    finally:
        sys.argv, sys.path = argv, path
        for name in set(sys.modules) - modules:
            # Another script may have another module of this name beside it.
            if str(getattr(sys.modules[name], "__file__", None) or "").startswith(f"{folder}{os.sep}"):
                del sys.modules[name]


def layers_of(
    model: _Module,
    loss: Callable[[], _Loss],
    steps: int = 10,
    warm_up: int = 3,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Layers:
    """Return layers in forward order with mean times over `steps`; raise `DenseError` if there are none.

    The bytes of a layer are those of its gradient: 0 without one, and indices and values of a sparse one.
    """
    # The time between two hooks is assigned to the layer of the second hook, and a module's forward time to
    # its first parameter. Gradients become ready in the reverse of the forward order.
    parameters = {name: each for name, each in model.named_parameters() if each.requires_grad}
    if not parameters:
        raise DenseError("expected a model with parameters that require gradients, got none")
    synchronize = _synchronizer(next(iter(parameters.values())))
    backward, forward = dict.fromkeys(parameters, 0.0), dict.fromkeys(parameters, 0.0)
    sizes = dict.fromkeys(parameters, 0)
    clock = _Clock(synchronize)
    with _time_with_hooks(model, parameters, clock, forward, backward):
        for step in range(warm_up + steps):
            progress(step, warm_up + steps)
            if step == warm_up:  # forget the times of the warm-up
                for times in (forward, backward):
                    times.update(dict.fromkeys(parameters, 0.0))
            for each in parameters.values():
                each.grad = None
            clock.begin()
            loss_value = loss()
            clock.begin()
            loss_value.backward()
            synchronize()
            if step >= warm_up:
                for name, each in parameters.items():
                    sizes[name] += _gradient_bytes(each.grad)
    if not any(sizes.values()):
        raise DenseError("expected a loss that gives the model's parameters gradients, got no gradient")
    # A gradient that is accumulated twice is ready the second time.
    order = list(dict.fromkeys(reversed(clock.order)))
    order += [name for name in parameters if name not in order]
    return Layers(
        tuple(order),
        np.array([round(sizes[name] / steps) for name in order], np.int64),
        np.array([_US_PER_S * backward[name] / steps for name in order]),
        np.array([_US_PER_S * forward[name] / steps for name in order]),
    )


def _gradient_bytes(gradient: _Tensor | None) -> int:
    if gradient is None:
        return 0
    # A sparse gradient may have an index more than once, which only its private methods accept.
    parts = (gradient._indices(), gradient._values()) if gradient.is_sparse else (gradient,)
    return sum(part.numel() * part.element_size() for part in parts)


class _Clock:
    def __init__(self, synchronize: Callable[[], None]) -> None:
        self._synchronize = synchronize
        self._last_time = 0.0
        self.order: list[str] = []

    def begin(self) -> None:
        self._synchronize()
        self._last_time = time.perf_counter()
        self.order = []

    def lap(self) -> float:
        self._synchronize()
        now = time.perf_counter()
        elapsed, self._last_time = now - self._last_time, now
        return elapsed


@contextmanager
def _time_with_hooks(
    model: _Module,
    parameters: dict[str, _Parameter],
    clock: _Clock,
    forward: dict[str, float],
    backward: dict[str, float],
) -> Iterator[None]:
    def on_gradient(name: str, _: object) -> None:
        backward[name] += clock.lap()
        clock.order.append(name)

    def on_forward(name: str, *_: object) -> None:
        forward[name] += clock.lap()

    handles = [
        each.register_post_accumulate_grad_hook(partial(on_gradient, name))
        for name, each in parameters.items()
    ]
    for prefix, module in model.named_modules():
        parameter_names = [
            f"{prefix}.{name}" if prefix else name for name, _ in module.named_parameters(recurse=False)
        ]
        first_name = next((name for name in parameter_names if name in parameters), None)
        if first_name is not None:
            handles.append(module.register_forward_hook(partial(on_forward, first_name)))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _synchronizer(parameter: _Parameter) -> Callable[[], None]:
    torch = import_torch()
    kind = parameter.device.type
    if kind == "cpu":
        return lambda: None
    synchronize: Callable[[], None] = getattr(torch, kind).synchronize
    return synchronize
