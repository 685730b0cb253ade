"""A comparison of a change with its baseline, from times that were measured in rounds."""

from math import exp, log, sqrt
from statistics import mean, stdev

T_95 = 2.201
"""Quantile of Student's t distribution for a 95 % interval and 12 rounds."""


def compare(baseline: list[float], repeat: list[float], change: list[float]) -> dict[str, float | str]:
    """Return the change of the time as a share of the baseline's, with its 95 % interval, and a verdict."""
    middle, low, high = interval(baseline, change)
    _, repeat_low, repeat_high = interval(baseline, repeat)
    verdict = "no difference"
    if repeat_low > 0 or repeat_high < 0:
        verdict = "not valid"
    elif high < 0:
        verdict = "faster"
    elif low > 0:
        verdict = "slower"
    return {"change": middle, "low": low, "high": high, "verdict": verdict}


def interval(baseline: list[float], other: list[float]) -> tuple[float, float, float]:
    """Return the change and its interval, from the ratios within rounds."""
    logs = [log(after / before) for before, after in zip(baseline, other, strict=True)]
    half = T_95 * stdev(logs) / sqrt(len(logs))
    middle = mean(logs)
    return exp(middle) - 1, exp(middle - half) - 1, exp(middle + half) - 1
