"""Quantiles of Student's t distribution."""

from __future__ import annotations

import math

_MAX_TERMS = 10_000
_PRECISION = 1e-14
_HALVINGS = 60  # of an interval between powers of 2, in which floats have 53 bits
_TINY = 1e-300  # in place of a denominator of 0


def t_quantile(degrees_of_freedom: float, probability: float) -> float:
    """Return the value that a t-distributed number is below with `probability`, 0.5 to less than 1.

    It is nan if the degrees of freedom are, as those of the mean of a metric that some arm does not have.
    """
    if math.isnan(degrees_of_freedom):
        return math.nan
    low, high = 0.0, 1.0
    while t_probability(degrees_of_freedom, high) < probability:
        low, high = high, 2 * high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if t_probability(degrees_of_freedom, middle) < probability:
            low = middle
        else:
            high = middle
    return high


def t_probability(degrees_of_freedom: float, limit: float) -> float:
    """Return the probability of a t-distributed number of at most `limit`, which is 0 or more."""
    share = degrees_of_freedom / (degrees_of_freedom + limit**2)
    return 1 - _incomplete_beta(degrees_of_freedom / 2, 0.5, share) / 2


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """Return the regularised incomplete beta function (Press et al., "Numerical Recipes", 6.4)."""
    if x in (0.0, 1.0):
        return x
    if x > (a + 1) / (a + b + 2):  # where the fraction of the complement converges
        return 1 - _incomplete_beta(b, a, 1 - x)
    scale = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    return math.exp(scale) * _continued_fraction(a, b, x) / a


def _continued_fraction(a: float, b: float, x: float) -> float:
    """Return the continued fraction of the incomplete beta function, by Lentz's method."""
    c, d = 1.0, 1 / _not_zero(1 - (a + b) * x / (a + 1))
    fraction = d
    for term in range(1, _MAX_TERMS):
        place = a + 2 * term
        even = term * (b - term) * x / ((place - 1) * place)
        odd = -(a + term) * (a + b + term) * x / (place * (place + 1))
        for coefficient in (even, odd):
            d = 1 / _not_zero(1 + coefficient * d)
            c = _not_zero(1 + coefficient / c)
            fraction *= c * d
        if abs(c * d - 1) < _PRECISION:
            break
    return fraction


def _not_zero(number: float) -> float:
    return number or _TINY
