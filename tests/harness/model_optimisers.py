"""The optimisers in plain terms and float64, a parameter at a time, and bounds for rounded gradients."""

from __future__ import annotations

from math import copysign, sqrt
from typing import Any

from foundation.optimisers import FTRL, SGD, Adagrad, Adam, TableOptimiser, parse


def table(first: int, text: str | None, scale: float) -> TableOptimiser:
    """Return the optimiser of a table, by its text."""
    return TableOptimiser.model_validate({"first": first, "scale": scale, "optimiser": text})


class ModelParameter:
    """A parameter that begins with `value`; `bound` is the error that its gradients' rounding may have made.

    `half_unit` is the largest error of a gradient. The bounds are those of
    packages/optimisers/README.md, for l1 = 0.
    """

    def __init__(self, text: str, value: float, half_unit: float = 0.0) -> None:
        self.value, self.bound, self.pushes = value, 0.0, 0
        self._of: Any = parse(text)  # one of four, matched in `push`
        self._half_unit = half_unit
        self._mean = self._squares = 0.0
        if isinstance(self._of, Adagrad):
            self._squares = self._of.initial
        if isinstance(self._of, FTRL):
            self._z = -value * (self._of.beta / self._of.alpha + self._of.l2)
            self._z += copysign(self._of.l1, self._z) if value else 0.0

    def push(self, gradient: float, step: int) -> None:
        """Apply a gradient of the worker's push number `step`, from 1 on."""
        self.pushes += 1
        match self._of:
            case SGD(lr=lr):
                self.value -= lr * gradient
                self.bound += lr * self._half_unit
            case Adagrad(lr=lr, eps=eps):
                self._squares += gradient**2
                self.value -= lr * gradient / (sqrt(self._squares) + eps)
                self._widen(lr / (sqrt(self._squares) + eps))
            case FTRL():
                self._ftrl(gradient)
            case Adam():
                self._adam(gradient, step)

    def _ftrl(self, gradient: float) -> None:
        of = self._of
        before, self._squares = self._squares, self._squares + gradient**2
        self._z += gradient - (sqrt(self._squares) - sqrt(before)) / of.alpha * self.value
        inverse_rate = (of.beta + sqrt(self._squares)) / of.alpha + of.l2
        if abs(self._z) <= of.l1:
            self.value = 0.0
        else:
            self.value = -(self._z - copysign(of.l1, self._z)) / inverse_rate
        self._widen(1 / inverse_rate)

    def _adam(self, gradient: float, step: int) -> None:
        of = self._of
        self._mean = of.beta1 * self._mean + (1 - of.beta1) * gradient
        self._squares = of.beta2 * self._squares + (1 - of.beta2) * gradient**2
        rate = of.lr * sqrt(1 - of.beta2**step) / (1 - of.beta1**step)
        root = sqrt(self._squares) + of.eps
        self.value -= rate * self._mean / root
        error = 1 - of.beta1**self.pushes
        error += abs(self._mean) / root * sqrt(1 - of.beta2**self.pushes)
        self.bound += rate * self._half_unit * error / root

    def _widen(self, rate: float) -> None:
        self.bound += rate * self._half_unit * (1 + sqrt(self.pushes))
