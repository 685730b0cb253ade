"""A rule for what is hot: smoothed counts, and moves that gain more than they cost."""

MEMORY = 0.8
"""Weight of the counts so far beside those of a window."""
MARGIN = 1.5
"""How much more a key must have than the one whose place it takes, in smoothed updates."""


class Memory:
    """What a run has seen."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.smoothed: dict[int, float] = {}


memory = Memory(0)


def start(capacity: int) -> None:
    """Begin a run; the switch holds at most `capacity` keys."""
    global memory
    memory = Memory(capacity)


def choose(counts: list[tuple[int, int]], in_switch: list[int]) -> list[int]:
    """Return the keys that the switch shall hold in the next window."""
    smoothed = {key: value * MEMORY for key, value in memory.smoothed.items()}
    for key, count in counts:
        smoothed[key] = smoothed.get(key, 0.0) + count * (1 - MEMORY)
    memory.smoothed = smoothed
    kept = sorted(in_switch, key=lambda key: smoothed.get(key, 0.0))
    others = sorted(set(smoothed) - set(in_switch), key=lambda key: -smoothed[key])
    while others and len(kept) < memory.capacity:
        kept.append(others.pop(0))
    for position, key in enumerate(kept):
        if not others or smoothed[others[0]] < smoothed.get(key, 0.0) + MARGIN:
            break
        kept[position] = others.pop(0)
    return kept
