"""Shares of the updates that a switch takes if the submission's rule chooses its keys."""

from hotline_course.points import points

MOVE_COST = 5
"""Updates at a server that moving a key into the switch costs as much as."""
MEMORY, GAIN = 0.75, 1.0


def top(counts, capacity):
    return sorted(counts, key=lambda key: (-counts[key], key))[:capacity]


def score(windows, choose):
    """Return the share of updates that the switch takes, less the cost of moves."""
    held, taken, moves = [], 0, 0
    for counts in windows:
        taken += sum(counts.get(key, 0) for key in held)
        chosen = choose(counts, held)
        moves += len(set(chosen) - set(held))
        held = chosen
    return (taken - MOVE_COST * moves) / sum(sum(counts.values()) for counts in windows)


def submitted_score(module, parameters):
    module.call("start", parameters.capacity)

    def choose(counts, held):
        keys = module.call("choose", [list(each) for each in counts.items()], held)
        assert isinstance(keys, list) and all(type(key) is int for key in keys), (
            "choose: expected a list of keys"
        )
        assert len(set(keys)) == len(keys), "choose: expected each key once"
        assert len(keys) <= parameters.capacity, (
            f"choose: expected at most {parameters.capacity}, got {len(keys)}"
        )
        return keys

    return score(parameters.windows, choose)


def expect_at_least(got, expected, name):
    assert got >= expected, f"expected a score of {expected:.3f}, which is that of {name}, got {got:.3f}"


def first_window_only(parameters):
    return score(parameters.windows, lambda counts, held: held or top(counts, parameters.capacity))


def last_window(parameters):
    return score(parameters.windows, lambda counts, held: top(counts, parameters.capacity))


def smoothed(parameters):
    """Return the score of the plain model: smoothed counts, and moves that gain more than a limit."""
    memory = {}

    def choose(counts, held):
        for key in memory.keys() | counts.keys():
            memory[key] = memory.get(key, 0) * MEMORY + counts.get(key, 0) * (1 - MEMORY)
        preferred = {key: memory[key] + GAIN * (key in held) for key in memory}
        return top(preferred, parameters.capacity)

    return score(parameters.windows, choose)


def test_the_switch_holds_at_most_its_capacity_and_some_keys(module, parameters):
    got = submitted_score(module, parameters)
    assert got > 0, (
        f"expected a score above 0, got {got:.3f}: are the keys that `choose` returns updated at all?"
    )


@points(2)
def test_the_rule_beats_the_first_and_the_last_window_alone(module, parameters):
    got = submitted_score(module, parameters)
    expect_at_least(got, first_window_only(parameters), "the first window's hottest keys for ever")
    expect_at_least(got, last_window(parameters), "the last window's hottest keys")


@points(3)
def test_the_rule_is_as_good_as_the_plain_model(module, parameters):
    expected = smoothed(parameters) - 0.01
    expect_at_least(submitted_score(module, parameters), expected, "smoothed counts less 0.01")
