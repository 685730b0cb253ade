"""Calculate from packet counts how oversubscribed uplinks change the gain."""

from __future__ import annotations

from foundation.settings import Strict
from hotline_answers.cluster_answer.capacity import CapacityModel
from hotline_answers.cluster_answer.cluster import Cluster
from hotline_answers.cluster_answer.sizes import PackingCounts

_RATIOS = tuple(2.0**k for k in range(11))


class UplinkGain(Strict):
    oversubscription: float
    baseline: float  # capacity in steps/s
    offload: float  # capacity in steps/s

    @property
    def gain(self) -> float:
        return self.offload / self.baseline


def uplink_gains(
    model: CapacityModel, baseline: PackingCounts, offload: PackingCounts, cluster: Cluster
) -> tuple[UplinkGain, ...]:
    """Return the capacities for oversubscriptions of 1 to 1,024 and the cluster's own; () without racks."""
    if cluster.racks is None:
        return ()
    return tuple(
        UplinkGain(
            oversubscription=ratio,
            baseline=model.capacity(baseline, uplink_factor=cluster.oversubscription / ratio),
            offload=model.capacity(offload, uplink_factor=cluster.oversubscription / ratio),
        )
        for ratio in sorted({*_RATIOS, cluster.oversubscription})
    )
