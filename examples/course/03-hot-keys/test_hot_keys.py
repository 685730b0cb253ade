"""Keys that the sketch reports, and keys that it does not."""

from collections import Counter

from hotline_course.frames import HotFrame
from hotline_course.points import points

MAX_COLD_REPORTS = 10
"""Limit of the number of 400 cold keys that a sketch may report.

A sketch of one row reports 14 to 26 (seeds 0 to 11), and one of two rows 0 to 5 (seeds 0 to 39).
"""


def send(switch, limit, keys):
    """Return the reports of each update: its key, how often the key has come, and the estimates."""
    switch.run(f"register_write threshold 0 {limit}")
    counts = Counter()
    reports = []
    for key in keys:
        counts[key] += 1
        switch.process(2, HotFrame(key, 1).encode())
        reports.append((key, counts[key], switch.digests()))
    return reports


@points(2)
def test_a_key_is_reported_with_its_estimate_at_the_limit(switch):
    for key, count, digests in send(switch, 4, [7] * 5):
        expected = [[key, count]] if count >= 4 else []
        assert digests == expected, (
            f"update {count} of key {key}, limit 4: expected the digests [key, estimate] {expected}, "
            f"got {digests}"
        )


def test_all_updates_are_forwarded(switch):
    switch.run("register_write threshold 0 2")
    frame = HotFrame(9, 1).encode()
    for _ in range(3):
        switch.expect(2, frame, (1, frame))
    assert switch.digests(), "expected digests of a key with 3 updates and a limit of 2, got none"


@points(2)
def test_no_hot_key_is_missed(switch, parameters):
    """A count-min sketch never estimates too low."""
    for key, count, digests in send(switch, parameters.limit, parameters.updates):
        if count >= parameters.limit:
            assert len(digests) == 1 and digests[0][0] == key and digests[0][1] >= count, (
                f"update {count} of key {key}, limit {parameters.limit}: expected a digest with the key, "
                f"got {digests}"
            )


@points(2)
def test_few_cold_keys_are_reported(switch, parameters):
    """Two rows with different hashes: a key is reported by mistake only if it shares both cells."""
    switch.run(f"register_write threshold 0 {parameters.limit}")
    for key in parameters.updates:
        switch.process(2, HotFrame(key, 1).encode())
    reported = {key for key, _ in switch.digests()}
    assert reported, f"expected digests for {len(parameters.updates)} updates, got none"
    cold = len(reported & set(parameters.cold))
    assert cold <= MAX_COLD_REPORTS, f"expected at most {MAX_COLD_REPORTS} cold keys, got {cold}"
