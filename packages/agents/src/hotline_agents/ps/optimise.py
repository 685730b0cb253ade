"""The update rules of optimisers at a server: float32 parameters and state, compiled without fast math.

A rule uses only +, -, *, / and √, which IEEE 754 rounds alike everywhere, and the fields of the RPC, so the
replay of a journal restores identical bits. `foundation.optimisers` declares the optimisers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypeAlias

import numpy as np
from numpy.typing import NDArray

from foundation.optimisers import FTRL, SGD, Adagrad, Adam, TableOptimiser
from foundation.protocol.header import LANES, MAX_VALUES
from foundation.protocol.rpc import NO_KEY_U64, Key
from nativekit.compile import compiled
from nativekit.records import Ints, Records, records

ADD, IS_SGD, IS_ADAGRAD, IS_ROWWISE_ADAGRAD, IS_FTRL, IS_ADAM = 0, 1, 2, 3, 4, 5
"""Kinds of rules, those with more words of state last; ADD is wrapping addition of fixed-point numbers."""
_ZERO = np.float32(0)

Floats: TypeAlias = NDArray[np.float32]


class OptimiserRule:
    kind: int
    first_key: np.uint64  # of the table
    unit: float  # gradient that 1 stands for in an RPC
    rate: np.float32  # lr, or FTRL's alpha
    eps: np.float32  # eps, or FTRL's beta
    initial: np.float32  # value of the first word of state before any gradient
    l1: np.float32
    l2: np.float32
    beta1: float
    beta2: float
    one_minus_beta1: np.float32
    one_minus_beta2: np.float32
    lr: float  # Adam's, from which `adam_rate` computes in double precision


class Batch:
    """Distinct rows whose gradients are applied together: their values, words of state, and gradients.

    A value has two words of state, or one with SGD and Adagrad. The first is Adagrad's sum of squares, FTRL's
    z or Adam's m; the second is FTRL's n or Adam's v. Row-wise Adagrad has its sum in a row's first value.
    """

    rows: Annotated[Ints, LANES]  # first cell of each row
    value: Annotated[Floats, MAX_VALUES]
    first_word: Annotated[Floats, MAX_VALUES]
    second_word: Annotated[Floats, MAX_VALUES]
    gradient_units: Annotated[NDArray[np.int32], MAX_VALUES]  # in units of `OptimiserRule.unit`


def make_rules(tables: Sequence[TableOptimiser]) -> Records[OptimiserRule]:
    if all(table.optimiser is None for table in tables):
        return records(0, OptimiserRule)
    rules = records(len(tables), OptimiserRule)
    for rule, table in zip(rules, sorted(tables, key=lambda table: table.first), strict=True):
        rule.first_key, rule.unit = np.uint64(table.first), 1 / table.scale
        _fill_rule(rule, table)
    return rules


def state_words_of(rules: Records[OptimiserRule]) -> int:
    """Return the number of words of state of each value; 0 without rules."""
    if not len(rules):
        return 0
    return 2 if rules["kind"].max() >= IS_FTRL else 1  # FTRL and Adam are the last kinds


def _fill_rule(rule: OptimiserRule, table: TableOptimiser) -> None:
    match table.optimiser:
        case None:
            rule.kind = ADD
        case SGD(lr=lr):
            rule.kind, rule.rate = IS_SGD, np.float32(lr)
        case Adagrad(lr=lr, eps=eps, initial=initial, rowwise=rowwise):
            rule.kind, rule.rate = IS_ROWWISE_ADAGRAD if rowwise else IS_ADAGRAD, np.float32(lr)
            rule.eps, rule.initial = np.float32(eps), np.float32(initial)
        case FTRL(alpha=alpha, beta=beta, l1=l1, l2=l2):
            rule.kind, rule.rate, rule.eps = IS_FTRL, np.float32(alpha), np.float32(beta)
            rule.l1, rule.l2 = np.float32(l1), np.float32(l2)
        case Adam(lr=lr, beta1=beta1, beta2=beta2, eps=eps):
            rule.kind, rule.lr, rule.eps = IS_ADAM, lr, np.float32(eps)
            rule.beta1, rule.one_minus_beta1 = beta1, np.float32(1 - beta1)
            rule.beta2, rule.one_minus_beta2 = beta2, np.float32(1 - beta2)


@compiled
def rule_index_of(rules: Records[OptimiserRule], key: Key) -> int:
    low, high = 0, len(rules) - 1
    while low < high:
        middle = (low + high + 1) >> 1
        if rules[middle].first_key <= key:
            low = middle
        else:
            high = middle - 1
    return low


@compiled
def last_key_of(rules: Records[OptimiserRule], index: int) -> Key:
    return rules[index + 1].first_key - np.uint64(1) if index + 1 < len(rules) else NO_KEY_U64


@compiled
def apply_gradients(rule: OptimiserRule, step: int, batch: Batch, n_rows: int, dim: int) -> None:
    """Apply the gradients of a batch's first rows; `step` is the number of the push, from 1."""
    n = n_rows * dim
    if rule.kind == IS_SGD:
        _apply_sgd(rule, batch, n)
    elif rule.kind == IS_ADAGRAD:
        _apply_adagrad(rule, batch, n)
    elif rule.kind == IS_ROWWISE_ADAGRAD:
        _apply_rowwise_adagrad(rule, batch, n_rows, dim)
    elif rule.kind == IS_FTRL:
        _apply_ftrl(rule, batch, n)
    else:
        _apply_adam(rule, adam_rate(rule, step), batch, n)


@compiled
def _apply_sgd(rule: OptimiserRule, batch: Batch, n: int) -> None:
    unit, rate = rule.unit, rule.rate
    for k in range(n):
        batch.value[k] -= rate * np.float32(batch.gradient_units[k] * unit)


@compiled
def _apply_adagrad(rule: OptimiserRule, batch: Batch, n: int) -> None:
    unit, rate, eps = rule.unit, rule.rate, rule.eps
    for k in range(n):
        gradient = np.float32(batch.gradient_units[k] * unit)
        squares = batch.first_word[k] + gradient * gradient
        batch.first_word[k] = squares
        batch.value[k] -= rate * (gradient / (np.sqrt(squares) + eps))


@compiled
def _apply_rowwise_adagrad(rule: OptimiserRule, batch: Batch, n_rows: int, dim: int) -> None:
    """Apply FBGEMM's exact row-wise Adagrad, which adds the mean square of a row's gradients to one sum.

    The squares are added in the order of the values, each sum rounded to float32.
    """
    unit, rate, eps, size = rule.unit, rule.rate, rule.eps, np.float32(dim)
    for k in range(n_rows):
        first, squares = k * dim, _ZERO
        for v in range(first, first + dim):
            gradient = np.float32(batch.gradient_units[v] * unit)
            squares += gradient * gradient
        total = batch.first_word[first] + squares / size
        batch.first_word[first] = total
        factor = rate / (np.sqrt(total) + eps)
        for v in range(first, first + dim):
            batch.value[v] -= factor * np.float32(batch.gradient_units[v] * unit)


@compiled
def _apply_ftrl(rule: OptimiserRule, batch: Batch, n: int) -> None:
    unit, alpha, beta, l1, l2 = rule.unit, rule.rate, rule.eps, rule.l1, rule.l2
    for k in range(n):
        gradient, previous_squares = np.float32(batch.gradient_units[k] * unit), batch.second_word[k]
        squares = previous_squares + gradient * gradient
        root = np.sqrt(squares)
        z = batch.first_word[k] + (gradient - (root - np.sqrt(previous_squares)) / alpha * batch.value[k])
        batch.first_word[k], batch.second_word[k] = z, squares
        excess = max(abs(z) - l1, _ZERO)
        magnitude = excess / ((beta + root) / alpha + l2)
        batch.value[k] = -magnitude if z > _ZERO else magnitude


@compiled
def _apply_adam(rule: OptimiserRule, rate: np.float32, batch: Batch, n: int) -> None:
    unit, eps = rule.unit, rule.eps
    one_minus_beta1, one_minus_beta2 = rule.one_minus_beta1, rule.one_minus_beta2
    for k in range(n):
        gradient = np.float32(batch.gradient_units[k] * unit)
        mean, squares = batch.first_word[k], batch.second_word[k]
        mean += (gradient - mean) * one_minus_beta1
        squares += (gradient * gradient - squares) * one_minus_beta2
        batch.first_word[k], batch.second_word[k] = mean, squares
        batch.value[k] -= rate * (mean / (np.sqrt(squares) + eps))


@compiled
def adam_rate(rule: OptimiserRule, step: int) -> np.float32:
    bias_correction = np.sqrt(1.0 - _power(float(rule.beta2), step)) / (1.0 - _power(float(rule.beta1), step))
    return np.float32(float(rule.lr) * bias_correction)


@compiled
def _power(base: float, exponent: int) -> float:
    """Return a power by multiplications, so that it is the same on every machine."""
    power = 1.0
    while exponent:
        if exponent & 1:
            power *= base
        base *= base
        exponent >>= 1
    return power


@compiled
def initial_state_word(rule: OptimiserRule, value: np.float32) -> np.float32:
    if rule.kind != IS_FTRL:
        return rule.initial
    # The z with which `_apply_ftrl`, before any gradient, would compute this value.
    z = -value * (rule.eps / rule.rate + rule.l2)
    if z == _ZERO:
        return _ZERO
    return z + rule.l1 if z > _ZERO else z - rule.l1
