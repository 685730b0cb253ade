"""The table of a PyTorch model, by hooks, on whatever device it is: when each gradient is ready.

As [BOTTLENECK]'s authors did (`simulation/layerwise_bk_done.py`), but all gradients in one pass.
"""

from __future__ import annotations

import runpy
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from foundation.optional import torch_here
from foundation.words import one_line
from studies.dense.errors import DenseError
from studies.dense.layers import Layers

RIGHT = "a script has `model`, a torch.nn.Module, and `loss()`, which runs it forward on a mini-batch"
_US = 1e6


def layers_of_script(
    script: Path, steps: int, warm_up: int, progress: Callable[[int, int], None] = lambda done, total: None
) -> Layers:
    """Run a Python file, and then its model for some steps; raises `DenseError` for what is not right."""
    if not script.is_file():
        raise DenseError(f"{script}: No such file; {RIGHT}")
    torch = torch_here()
    try:
        found = runpy.run_path(str(script))
    except Exception as error:
        raise DenseError(f"{script}: {type(error).__name__}: {one_line(str(error))}") from error
    if not isinstance(found.get("model"), torch.nn.Module) or not callable(found.get("loss")):
        raise DenseError(f"{script}: {RIGHT}")
    return layers_of(found["model"], found["loss"], steps, warm_up, progress)


def layers_of(
    model: Any,
    loss: Callable[[], Any],
    steps: int = 10,
    warm_up: int = 3,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Layers:
    """Means over steps, in the order of the forward pass: the last whose gradient is ready comes first.

    Times between hooks belong to what comes next; a module's forward stands at its first parameter.
    """
    parameters = {name: each for name, each in model.named_parameters() if each.requires_grad}
    if not parameters:
        raise DenseError("the model has no parameter that is trained; its gradients are what is sent")
    wait = _waiting(next(iter(parameters.values())))
    backward, forward = dict.fromkeys(parameters, 0.0), dict.fromkeys(parameters, 0.0)
    clock = _Clock(wait)
    with _hooked(model, parameters, clock, forward, backward):
        for step in range(warm_up + steps):
            progress(step, warm_up + steps)
            if step == warm_up:
                for times in (forward, backward):
                    times.update(dict.fromkeys(parameters, 0.0))
            for each in parameters.values():
                each.grad = None
            clock.begin()
            found = loss()
            clock.begin()
            found.backward()
            wait()
    # A gradient that is added to twice is ready at the second.
    order = list(dict.fromkeys(reversed(clock.order)))
    order += [name for name in parameters if name not in order]
    return Layers(
        tuple(order),
        np.array([parameters[name].numel() * parameters[name].element_size() for name in order], np.int64),
        np.array([_US * backward[name] / steps for name in order]),
        np.array([_US * forward[name] / steps for name in order]),
    )


class _Clock:
    """Seconds since it was last asked, and the order in which gradients were ready."""

    def __init__(self, wait: Callable[[], None]) -> None:
        self._wait = wait
        self._last = 0.0
        self.order: list[str] = []

    def begin(self) -> None:
        self._wait()
        self._last = time.perf_counter()
        self.order = []

    def lap(self) -> float:
        self._wait()
        now = time.perf_counter()
        gone, self._last = now - self._last, now
        return gone


@contextmanager
def _hooked(
    model: Any,
    parameters: dict[str, Any],
    clock: _Clock,
    forward: dict[str, float],
    backward: dict[str, float],
) -> Iterator[None]:
    def ready(name: str) -> Callable[[Any], None]:
        def note(_: Any) -> None:
            backward[name] += clock.lap()
            clock.order.append(name)

        return note

    def passed(name: str) -> Callable[..., None]:
        def note(*_: Any) -> None:
            forward[name] += clock.lap()

        return note

    handles = [each.register_post_accumulate_grad_hook(ready(name)) for name, each in parameters.items()]
    for prefix, module in model.named_modules():
        own = [f"{prefix}.{name}" if prefix else name for name, _ in module.named_parameters(recurse=False)]
        first = next((name for name in own if name in parameters), None)
        if first is not None:
            handles.append(module.register_forward_hook(passed(first)))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _waiting(parameter: Any) -> Callable[[], None]:
    """What to call for the device of a parameter to have done what it was told to."""
    torch = torch_here()
    kind = parameter.device.type
    if kind == "cpu":
        return lambda: None
    device: Callable[[], None] = getattr(torch, kind).synchronize
    return device
