"""A comparison of a change with its baseline, from times that were measured in rounds."""

T_95 = 2.201
"""Quantile of Student's t distribution for a 95 % interval and 12 rounds."""


def compare(baseline: list[float], repeat: list[float], change: list[float]) -> dict[str, float | str]:
    """Return the change of the time as a share of the baseline's, with its 95 % interval, and a verdict.

    Each argument has a time in ms for each of 12 rounds. All three were measured in turn in a round, and
    `repeat` is the baseline once more. The verdict is "faster", "slower", "no difference", or "not valid" if
    the baseline differs from its own repeat.
    """
    # TODO 1: the machine drifts from round to round: compare within rounds, by the logarithms of ratios.
    # TODO 2: the interval is the mean ± T_95 standard errors, back from logarithms.
    # TODO 3: find the verdict from the interval, and from the repeat's.
    difference = sum(change) / sum(baseline) - 1
    return {"change": difference, "low": difference, "high": difference, "verdict": "faster"}
