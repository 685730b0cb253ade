"""The result of one simulated training."""

from __future__ import annotations

from foundation.settings import Strict
from studies.simulated_training import LossCurve

_LAST_SHARE = 0.1  # share of a loss curve whose mean is `last_loss`
SMOOTHED_BINS = 5  # bins of a loss curve that are averaged, since the losses of few mini-batches are noisy


class TrainingResult(Strict):
    waits: bool  # whether workers wait for each other
    keys_per_step: float
    parameters: int
    step_us: float
    """Mean time from the start of a worker's pull to the end of its push."""
    steps_per_s: float
    """Steps/s of all workers, until the first worker finishes its last step."""
    bytes_per_step: float
    """Frame bytes per step on a worker's cable, in both directions."""
    packets_per_step: float
    server_packets_per_step: float
    retransmissions: int
    chance_loss: float  # loss of a model that knows only the labels' frequencies
    loss_curve: LossCurve

    @property
    def last_loss(self) -> float:
        losses = self.loss_curve.loss
        last_losses = losses[-max(1, int(_LAST_SHARE * len(losses))) :]
        return sum(last_losses) / len(last_losses)

    def ms_to_loss(self, loss: float) -> float | None:
        """Return the ms until the mean of the last `SMOOTHED_BINS` losses is at most `loss`, or None."""
        losses, times = self.loss_curve.loss, self.loss_curve.ms
        for end in range(SMOOTHED_BINS, len(losses) + 1):
            if sum(losses[end - SMOOTHED_BINS : end]) / SMOOTHED_BINS <= loss:
                return times[end - 1]
        return None
