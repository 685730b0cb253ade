"""A rule for what is hot: smoothed counts, and moves that gain more than they cost."""

MEMORY = 0.8
"""Weight of the counts so far beside those of a window."""
MARGIN = 1.5
"""How much more a key must have than the one whose place it takes, in smoothed updates."""
state = {"capacity": 0, "smoothed": {}}


def start(capacity):
    """Begin a run; the switch holds at most `capacity` keys."""
    state.update(capacity=capacity, smoothed={})


def choose(counts, in_switch):
    """Return the keys that the switch shall hold in the next window."""
    smoothed = {key: value * MEMORY for key, value in state["smoothed"].items()}
    for key, count in counts:
        smoothed[key] = smoothed.get(key, 0.0) + count * (1 - MEMORY)
    state["smoothed"] = smoothed
    kept = sorted(in_switch, key=lambda key: smoothed.get(key, 0.0))
    others = sorted(set(smoothed) - set(in_switch), key=lambda key: -smoothed[key])
    while others and len(kept) < state["capacity"]:
        kept.append(others.pop(0))
    for position, key in enumerate(kept):
        if not others or smoothed[others[0]] < smoothed.get(key, 0.0) + MARGIN:
            break
        kept[position] = others.pop(0)
    return kept
