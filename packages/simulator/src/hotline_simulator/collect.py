"""Simulated state of design `collect` in the switch: the sums that servers have not collected yet."""

from __future__ import annotations

from collections.abc import Sequence

from experiment.run_config import EPOCH
from foundation.protocol.codec import Keys
from hotline_agents.collect.store import BY_COMMAND, CollectStore
from hotline_simulator.hotset import SWITCH_STATE_OPS as HOTSET
from hotline_simulator.hotset import read_registers


def _release_to_switch(store: CollectStore, keys: Sequence[Keys]) -> None:
    for each, own in zip(store.by_home, keys, strict=True):
        indexes = each.locate(own)
        indexes = indexes[each.is_in_share(indexes)]
        each.renew(EPOCH)
        each.release(indexes)
        each.begin_collecting(indexes, 1)  # a time of 0 would mean: not yet published


def _hold(store: CollectStore) -> None:
    for each in store.by_home:
        each.hold(BY_COMMAND)


def _publish(store: CollectStore, now: int) -> None:
    for each in store.by_home:
        each.resume(BY_COMMAND)
        each.request_full_collection(now)


SWITCH_STATE_OPS = HOTSET._replace(
    release_to_switch=_release_to_switch, values=read_registers("pending"), hold=_hold, publish=_publish
)
