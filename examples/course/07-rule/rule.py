"""A rule for what is hot: which keys the switch holds in the next window."""

capacity_of_switch = 0


def start(capacity: int) -> None:
    """Begin a run; the switch holds at most `capacity` keys."""
    global capacity_of_switch
    capacity_of_switch = capacity


def choose(counts: list[tuple[int, int]], in_switch: list[int]) -> list[int]:
    """Return the keys that the switch shall hold in the next window.

    `counts` has a pair of key and updates for each key of the last window, and `in_switch` the keys that are
    in the switch.
    """
    # TODO 1: fill the switch with the keys that had the most updates.
    # TODO 2: a window is short and noisy: remember the counts of earlier windows, with less weight.
    # TODO 3: moving a key costs as much as MOVE_COST updates at a server: move only what gains more.
    return in_switch
