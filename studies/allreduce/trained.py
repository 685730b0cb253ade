"""What came of a job that trains."""

from __future__ import annotations

from foundation.settings import Strict

SMOOTH = 5
"""Of a course: losses of so few mini-batches differ by their samples, too."""


class Course(Strict):
    """Loss along the way, of steps that began before the first worker had done all of its own: means over
    some of them, one behind the other."""

    step: list[float]
    """Mini-batches of all workers that were done by then."""
    ms: list[float]
    """Virtual time at which they were."""
    loss: list[float]
    """Their mean log loss, in nats, each before its update."""


class Trained(Strict):
    """A closed loop of steps of all workers."""

    waits: bool
    """Whether workers wait for each other."""
    keys_per_step: float
    """Distinct parameters of a mini-batch, the mean."""
    parameters: int
    """Of the model: all of them are hot."""
    step_us: float
    """From the beginning of a worker's pull to the end of its push, the mean."""
    steps_per_s: float
    """Of all workers: those that began before the first had done all of its own, by that time."""
    bytes_per_step: float
    """Frame bytes on a worker's cable, both ways, for each step of it."""
    packets_per_step: float
    """Frames there."""
    server_packets_per_step: float
    """Frames on the servers' cables, both ways, for each step of a worker."""
    retransmissions: int
    chance_loss: float
    """Of a model that knows only how frequent the labels are."""
    course: Course

    @property
    def last_loss(self) -> float:
        """Of the last tenth of the steps."""
        losses = self.course.loss
        last = losses[-max(1, len(losses) // 10) :]
        return sum(last) / len(last)

    def ms_to(self, loss: float) -> float | None:
        """When the mean of the latest `SMOOTH` losses of the course was as low for the first time; None:
        never."""
        losses, ends = self.course.loss, self.course.ms
        for end in range(SMOOTH, len(losses) + 1):
            if sum(losses[end - SMOOTH : end]) / SMOOTH <= loss:
                return ends[end - 1]
        return None
