"""Checkpoints of sessions: what a keeper writes while workers push, and sessions that start from it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import hotline
from foundation.errors import HotlineError
from hotline_scripts.kv.calls import InvalidArgument
from hotline_scripts.kv.connection import NotConnected
from switch_harness.waiting import wait_for
from switch_harness.wording import mentions
from tests.harness.loopback import RunningRendezvous, running_rendezvous

TABLES = {"bias": (5, 1), "users": (7, 3), "wide": (2, 130)}
STEPS = 6
OPTIMISERS = (None, "sgd(lr=0.1)", "adagrad(lr=0.1)", "ftrl(alpha=0.1)", "adam(lr=0.01)")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "model.npz"


@pytest.fixture
def open_cluster(tmp_path: Path, file: Path) -> Iterator[Callable[..., RunningRendezvous]]:
    """Start a rendezvous whose sessions start from `file`, and are written to it at their end."""
    opened: list[Any] = []

    def open_it(size: int = 1, folder: str = "first") -> RunningRendezvous:
        place = tmp_path / folder
        place.mkdir()
        context = running_rendezvous(place, size)
        opened.append(context)
        running = context.__enter__()
        running.cluster.checkpoint = file
        return running

    yield open_it
    for context in opened:
        context.__exit__(None, None, None)


def join(running: RunningRendezvous, optimiser: str | None = None, **options: Any) -> hotline.Worker:
    return hotline.Worker(TABLES, connect=running.place, optimiser=optimiser, **options)


def first_values(name: str) -> NDArray[np.float32]:
    return np.linspace(-300, 300, np.prod(TABLES[name]), dtype=np.float32).reshape(TABLES[name])


def train(kv: hotline.Worker, steps: range) -> None:
    """Set the tables unless they are, and push the gradients of some steps."""
    for name in TABLES:
        assert kv.init(first_values(name), name) == (steps.start == 0)
    for step in steps:
        for name, (rows, dim) in TABLES.items():
            random = np.random.default_rng((step, dim))
            keys = random.choice(rows, rows - 1, replace=False)
            kv.push(keys, random.normal(0, 1, (rows - 1, dim)).astype(np.float32), name)


def end_session(running: RunningRendezvous, kv: hotline.Worker) -> None:
    kv.close()
    wait_for(lambda: running.is_idle)


def contents(file: Path) -> dict[str, list[Any]]:
    with np.load(file) as archive:
        return {name: [archive[name].dtype.str, archive[name].tobytes()] for name in archive.files}


@pytest.mark.parametrize("optimiser", OPTIMISERS)
def test_training_from_a_checkpoint_on_gives_the_bits_of_uninterrupted_training(
    optimiser: str | None, file: Path, open_cluster: Callable[..., RunningRendezvous]
) -> None:
    running = open_cluster()
    kv = join(running, optimiser)
    train(kv, range(2 * STEPS))
    end_session(running, kv)
    expected = contents(file)
    file.unlink()
    for steps in (range(STEPS), range(STEPS, 2 * STEPS)):
        kv = join(running, optimiser)
        train(kv, steps)
        end_session(running, kv)
    assert contents(file) == expected


def test_a_checkpoint_has_the_fixed_point_numbers_and_can_be_loaded(
    file: Path, open_cluster: Callable[..., RunningRendezvous]
) -> None:
    running = open_cluster()
    kv = join(running)
    train(kv, range(0))
    large = np.full((5, 1), 300.0, np.float32)
    kv.push(np.arange(5), large, "bias")
    kv.push(np.arange(5), np.full((5, 1), 1 / 65536, np.float32), "bias")
    end_session(running, kv)
    with np.load(file) as archive:
        numbers = archive["bias"] / archive["bias.scale"]
    # A float32 has 24 bits, and these sums have up to 26.
    assert numbers.tolist() == (first_values("bias").astype(float) + 300 + 1 / 65536).tolist()
    moved = file.rename(file.with_name("moved.npz"))
    kv = join(running)
    assert kv.load(moved)
    end_session(running, kv)
    assert contents(file) == contents(moved)
    file.unlink()
    kv = join(running, scale={"bias": 1024.0, "users": 65536, "wide": 65536})
    with pytest.raises(InvalidArgument, match=mentions("scale", "bias", 1024, 65536)):
        kv.load(moved)
    kv.close()


def test_each_worker_and_row_has_a_prefix_of_its_pushes_in_a_checkpoint(
    tmp_path: Path, open_cluster: Callable[..., RunningRendezvous]
) -> None:
    # Push k of rank r adds bit 12 r + k to each row of `users`.
    running, pushes = open_cluster(size=2), 12
    workers = [join(running) for _ in range(2)]
    threads = [threading.Thread(target=train, args=(kv, range(0))) for kv in workers[:1]]
    threads[0].start()
    threads[0].join()
    workers[1].init(first_values("users"), "users")
    begun, acknowledged = [0, 0], [0, 0]
    halfway = threading.Barrier(3)

    def push(kv: hotline.Worker) -> None:
        for k in range(pushes):
            if k == pushes // 2:
                halfway.wait()
            begun[kv.rank] = k + 1
            bit = np.full((7, 3), 2.0 ** (12 * kv.rank + k - 16), np.float32)
            kv.wait(kv.push(np.arange(7), bit, "users"))
            acknowledged[kv.rank] = k + 1

    keeper = running.cluster.keeper
    assert keeper is not None
    keeper.save(str(tmp_path / "before.npz"), {})
    pushers = [threading.Thread(target=push, args=(kv,)) for kv in workers]
    for thread in pushers:
        thread.start()
    halfway.wait()
    least = [*acknowledged]
    keeper.save(str(tmp_path / "during.npz"), {})
    most = [*begun]
    for thread in pushers:
        thread.join()
    for kv in workers:
        kv.close()
    with np.load(tmp_path / "before.npz") as before, np.load(tmp_path / "during.npz") as during:
        added = (during["users"] - before["users"]).reshape(-1)
    assert least >= [pushes // 2] * 2
    for rank in range(2):
        bits = added >> 12 * rank & 0xFFF
        counts = [int(each).bit_length() for each in bits]
        assert all(bit == 2**count - 1 for bit, count in zip(bits, counts, strict=True)), bits
        assert all(least[rank] <= count <= most[rank] for count in counts)


def test_no_checkpoint_is_written_before_all_tables_are_set_or_after_a_failure(
    file: Path, open_cluster: Callable[..., RunningRendezvous]
) -> None:
    running = open_cluster()
    kv = join(running)
    kv.init(first_values("users"), "users")
    end_session(running, kv)
    assert not file.exists()
    kv = join(running)
    train(kv, range(1))
    running.break_session("server 1 has ended")
    with pytest.raises(HotlineError):
        kv.barrier()
    kv._leave(is_orderly=False)
    wait_for(lambda: running.is_idle)
    assert not file.exists()


@pytest.mark.parametrize("content", [b"", b"PK\3\4 no archive"])
def test_unreadable_checkpoints_and_checkpoints_of_other_tables_are_refused(
    content: bytes, file: Path, open_cluster: Callable[..., RunningRendezvous]
) -> None:
    running = open_cluster()
    file.write_bytes(content)
    with pytest.raises(NotConnected, match=mentions(file)):
        join(running)
    assert file.read_bytes() == content
    file.unlink()
    kv = join(running)
    train(kv, range(1))
    end_session(running, kv)
    before = file.read_bytes()
    with pytest.raises(NotConnected, match=mentions(file, "users", 8)):
        hotline.Worker({"users": (8, 3)}, connect=running.place)
    assert file.read_bytes() == before


def test_a_successor_counts_the_pushes_of_earlier_workers(
    open_cluster: Callable[..., RunningRendezvous],
) -> None:
    running = open_cluster()
    running.cluster.after_death = "wait"
    kv = join(running, "adam(lr=0.01)")
    train(kv, range(STEPS))
    kv.barrier()
    kv._leave(is_orderly=False)
    wait_for(lambda: running.rendezvous.vanished_workers == 1)
    successor = join(running, "adam(lr=0.01)")
    assert not successor.init(first_values("users"), "users")
    assert successor._steps["users"] == STEPS
    successor.close()
