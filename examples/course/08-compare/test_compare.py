"""Intervals and verdicts of comparisons whose true change is known."""

from math import isfinite, log, sqrt
from statistics import median, stdev

from hotline_course.points import points

T_95 = 2.201
VERDICTS = ("faster", "slower", "no difference", "not valid")


def compare(module, series):
    found = module.call("compare", series.baseline, series.repeat, series.change)
    assert isinstance(found, dict), f"compare: expected a dictionary, got {found!r}"
    for name in ("change", "low", "high"):
        value = found.get(name)
        assert isinstance(value, float) and isfinite(value), (
            f"{name}: expected a finite number, got {value!r}"
        )
    assert found.get("verdict") in VERDICTS, (
        f"verdict: expected one of {VERDICTS}, got {found.get('verdict')!r}"
    )
    return found


def count_verdicts(module, many, verdict):
    return sum(compare(module, series)["verdict"] == verdict for series in many)


def plain_width(series):
    """Return the width of the plain model's interval, of the logarithm."""
    logs = [log(after / before) for before, after in zip(series.baseline, series.change, strict=True)]
    return 2 * T_95 * stdev(logs) / sqrt(len(logs))


@points(2)
def test_a_95_percent_interval_has_the_true_change_19_times_in_20(module, parameters):
    found = [compare(module, series) for series in parameters.measured]
    pairs = zip(parameters.measured, found, strict=True)
    share = sum(each["low"] <= series.truth <= each["high"] for series, each in pairs) / len(found)
    assert share >= 0.85, (
        f"expected the true change between low and high in 85 % of {len(found)} comparisons or more, "
        f"got {share:.0%}"
    )


@points(2)
def test_intervals_are_as_narrow_as_those_of_the_plain_model(module, parameters):
    """The drift between rounds, which all measurements of a round share, is no noise of the change."""
    ratios = []
    for series in parameters.measured:
        found = compare(module, series)
        low, change, high = (found[name] for name in ("low", "change", "high"))
        assert -1 < low < change < high, (
            f"expected low < change < high, got {low:.3f}, {change:.3f}, {high:.3f}"
        )
        ratios.append(log((1 + high) / (1 + low)) / plain_width(series))
    got = median(ratios)
    assert got <= 1.25, (
        f"expected intervals at most 1.25 times as wide as the plain model's, got {got:.2f} times"
    )


def test_no_change_is_no_difference(module, parameters):
    many = parameters.without_change
    wrong = sum(count_verdicts(module, many, verdict) for verdict in ("faster", "slower"))
    assert wrong <= len(many) // 10, (
        f'expected "faster" or "slower" for at most {len(many) // 10} of {len(many)} comparisons without '
        f"a change, got {wrong}"
    )
    found = count_verdicts(module, many, "no difference")
    assert found >= 0.8 * len(many), (
        f'expected "no difference" for 80 % of {len(many)} comparisons, got {found}'
    )


def test_a_large_change_has_its_direction(module, parameters):
    for series in parameters.with_change:
        verdict = compare(module, series)["verdict"]
        expected = "faster" if series.truth < 0 else "slower"
        # The repeat of the baseline differs by chance in one of twenty comparisons.
        assert verdict in (expected, "not valid"), (
            f"change {series.truth:+.0%}: expected {expected}, got {verdict}"
        )
    refused = count_verdicts(module, parameters.with_change, "not valid")
    limit = len(parameters.with_change) // 4
    assert refused <= limit, f'expected "not valid" for at most {limit} of these comparisons, got {refused}'


def test_a_baseline_unlike_its_repeat_makes_the_comparison_not_valid(module, parameters):
    many = parameters.not_repeated
    found = count_verdicts(module, many, "not valid")
    assert found == len(many), f'expected "not valid" for all {len(many)} comparisons, got {found}'
