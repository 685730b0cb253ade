"""Idle timers without a clock: when entries are called idle, and when again."""

from hypothesis import given
from hypothesis import strategies as st

from softswitch.p4runtime.entities.idle_timeouts import MIN_TIMEOUT_US, IdleTimers
from softswitch.pipeline import EntryKey

A, B = EntryKey("t", (1,)), EntryKey("t", (2,))
SECOND = 1_000_000  # µs


def timers(hits: dict[EntryKey, int]) -> IdleTimers:
    return IdleTimers(lambda keys: [hits.get(key, 0) for key in keys])


def test_an_entry_that_is_never_hit_is_reported_idle_after_each_timeout() -> None:
    idle = timers({})
    idle.start(A, SECOND * 1000, 500)
    assert (idle.next_deadline(), idle.restart_expired(SECOND + 499)) == (SECOND + 500, [])
    assert idle.restart_expired(SECOND + 500) == [A]
    assert (idle.next_deadline(), idle.restart_expired(2 * SECOND + 500)) == (2 * SECOND + 500, [A])


def test_a_hit_starts_the_timer_anew() -> None:
    hits = {A: SECOND // 2}
    idle = timers(hits)
    idle.start(A, SECOND * 1000, 0)
    assert idle.restart_expired(SECOND) == []
    assert idle.next_deadline() == SECOND // 2 + SECOND
    assert idle.restart_expired(SECOND // 2 + SECOND) == [A]


def test_stopped_timers_do_not_expire_and_restarted_timers_have_their_new_timeout() -> None:
    idle = timers({})
    idle.start(A, SECOND * 1000, 0)
    idle.start(B, 2 * SECOND * 1000, 0)
    idle.stop(A)
    idle.stop(A)
    assert idle.next_deadline() == 2 * SECOND
    idle.start(B, SECOND * 1000, 0)
    assert (idle.restart_expired(SECOND), idle.next_deadline()) == ([B], 2 * SECOND)
    idle.stop(B)
    assert idle.next_deadline() is None


def test_a_timeout_is_no_shorter_than_can_be_served() -> None:
    idle = timers({})
    idle.start(A, 1, 0)
    assert idle.next_deadline() == MIN_TIMEOUT_US


@given(st.lists(st.tuples(st.integers(1, SECOND), st.booleans()), max_size=40))
def test_an_entry_is_idle_when_nothing_happened_for_its_timeout(steps: list[tuple[int, bool]]) -> None:
    hits: dict[EntryKey, int] = {}
    idle, timeout, now = timers(hits), 300_000, 0
    idle.start(A, timeout * 1000, 0)
    active = 0
    for pause, hit in steps:
        now += pause
        while (end := idle.next_deadline()) is not None and end <= now:
            expired = end - active >= timeout
            assert idle.restart_expired(end) == ([A] if expired else [])
            active = end if expired else active
        assert now - active < timeout
        if hit:
            hits[A] = active = now
