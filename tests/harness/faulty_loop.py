"""The loop of testbeds: state machines around a network that loses, doubles and reorders messages."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from random import Random
from typing import ClassVar, Generic, Protocol, TypeVar

MS = 1_000_000
Message = TypeVar("Message")


class Core(Protocol):
    def wake(self, now: int) -> None: ...


class FaultyLoop(ABC, Generic[Message]):
    """Time is a number, and a `Random` decides what happens next.

    `loss`, `doubling` and `reordering` are probabilities: that a message is lost, that it comes `extra` more
    times, and that the next one to arrive is any, and not the oldest.
    """

    most_steps: ClassVar[int] = 1_000_000

    def __init__(
        self, random: Random, *, loss: float = 0.0, doubling: float = 0.0, extra: int = 1,
        reordering: float = 0.0,
    ) -> None:  # fmt: skip
        self.random, self.now = random, 0
        self.loss, self.doubling, self.extra, self.reordering = loss, doubling, extra, reordering
        self.wire: list[Message] = []

    @abstractmethod
    def cores(self) -> Sequence[Core]: ...

    @abstractmethod
    def transmit(self) -> None:
        """Put all datagrams that are ready on the wire."""

    @abstractmethod
    def arrive(self, message: Message) -> None: ...

    @abstractmethod
    def is_settled(self) -> bool: ...

    def put(self, message: Message) -> None:
        if self.random.random() >= self.loss:
            self.wire.append(message)
        if self.random.random() < self.doubling:
            self.wire += [message] * self.extra

    def deliver(self, index: int) -> None:
        """Deliver one of the messages under way."""
        self.arrive(self.wire.pop(index % len(self.wire)))

    def pass_time(self, nanoseconds: int) -> None:
        self.now += nanoseconds
        for core in self.cores():
            core.wake(self.now)

    def wait(self) -> None:
        """Let time pass, as no message is under way."""
        self.pass_time(5 * MS)

    def step(self) -> None:
        self.transmit()
        if self.wire:
            self.deliver(self.random.getrandbits(30) if self.random.random() < self.reordering else 0)
        else:
            self.wait()

    def settle(self) -> None:
        for _ in range(self.most_steps):
            if self.is_settled():
                return
            self.step()
        raise AssertionError("does not come to rest")
