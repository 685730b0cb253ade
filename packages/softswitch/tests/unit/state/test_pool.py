"""Runs of words in a fixed region against a dict: each run is found, also after others have moved."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from softswitch.state.memory import Memory
from softswitch.state.pool import RunPool

SIZE = 12
STEPS = st.lists(st.tuples(st.integers(0, 4), st.one_of(st.none(), st.integers(0, 7))), max_size=40)


@given(STEPS)
def test_runs_keep_their_words_when_other_runs_are_put_and_removed(
    steps: list[tuple[int, int | None]],
) -> None:
    memory = Memory(8 * (SIZE + 4))
    memory.words[:] = 77
    words = memory.words[2:]
    pool, model, seen = RunPool(memory, 2, SIZE), dict[int, list[int]](), dict[int, int]()
    for turn, (key, length) in enumerate(steps):
        if length is None:
            pool.remove(key)
            model.pop(key, None)
            seen.pop(key, None)
        elif pool.used - pool.length(key) + length <= SIZE:
            values = [1000 * turn + n + 1 for n in range(length)]
            renewed = pool.put(key, values)
            model[key] = values
            assert len(set(renewed)) == len(renewed)
            assert {k: pool.word(k) for k in model if k not in renewed} == {
                k: word for k, word in seen.items() if k in model and k not in renewed
            }
            seen = {k: pool.word(k) for k in model}
        assert pool.used == sum(map(len, model.values()))
        for k, values in model.items():
            first, count = pool.word(k) >> 32, pool.word(k) & 0xFFFFFFFF
            assert count == pool.length(k) == len(values)
            assert words[first : first + count].tolist() == values
        assert [*memory.words[:2].tolist(), *words[SIZE:].tolist()] == [77] * 4


def test_a_run_is_placed_after_the_last_run_until_the_pool_is_full() -> None:
    memory = Memory(8 * 6)
    words, pool = memory.words, RunPool(memory, 0, 6)
    assert (pool.put(1, [11, 12]), pool.put(2, [21, 22, 23])) == ([1], [2])
    assert (pool.word(1), pool.word(2), pool.word(3)) == (0 << 32 | 2, 2 << 32 | 3, 0)
    assert pool.put(3, [31]) == [3]
    assert words.tolist() == [11, 12, 21, 22, 23, 31]
    assert pool.put(1, [13]) == [2, 3, 1]
    assert words.tolist()[:5] == [21, 22, 23, 31, 13]
    assert (pool.word(2), pool.word(3), pool.word(1)) == (0 << 32 | 3, 3 << 32 | 1, 4 << 32 | 1)
    assert (pool.length(1), pool.length(9), pool.used) == (1, 0, 5)


def test_runs_move_in_order_so_that_no_run_is_overwritten() -> None:
    """The run put last lies last; moved first, it would be written over what has not moved yet."""
    memory = Memory(8 * 6)
    words, pool = memory.words, RunPool(memory, 0, 6)
    for key, values in ((5, [1]), (4, [2, 3]), (3, [4, 5]), (2, [6])):
        pool.put(key, values)
    pool.remove(5)
    assert pool.put(9, [7]) == [4, 3, 2, 9]
    assert words.tolist() == [2, 3, 4, 5, 6, 7]


def test_removing_a_run_frees_its_room() -> None:
    pool = RunPool(Memory(8 * 4), 0, 4)
    pool.put(1, [1, 2, 3])
    pool.remove(1)
    pool.remove(1)
    assert (pool.used, pool.length(1), pool.word(1)) == (0, 0, 0)
    assert pool.put(2, [1, 2, 3, 4]) == [2]
    assert pool.word(2) == 0 << 32 | 4
