"""BMv2's services `simple_pre_lag`, of multicast groups, and `simple_switch`, of mirroring and queues."""

from __future__ import annotations

import json

from softswitch.runtime.interface import Runtime
from softswitch.runtime.refusals import RuntimeRefusal
from softswitch.thrift.codec import I16, I32, I64
from softswitch.thrift.conversion import parse_bit_map
from softswitch.thrift.structs import MIRRORING_ERRORS, MULTICAST_ERRORS, MirroringSession, raises

_QUEUE_SET = 0
_NO_PORT = -1


class SimplePreLagService:
    """Calls on multicast groups. A group's handle is its number; ports and LAGs are 1s in a text of bits."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    @raises(MULTICAST_ERRORS)
    def bm_mc_mgrp_create(self, cxt_id: I32, mgrp: I32) -> I32:
        self._runtime.mc_group_create(mgrp)
        return mgrp

    @raises(MULTICAST_ERRORS)
    def bm_mc_mgrp_destroy(self, cxt_id: I32, mgrp_handle: I32) -> None:
        self._runtime.mc_group_destroy(mgrp_handle)

    @raises(MULTICAST_ERRORS)
    def bm_mc_node_create(self, cxt_id: I32, rid: I32, port_map: str, lag_map: str) -> I32:
        return self._runtime.mc_node_create(rid, parse_bit_map(port_map), parse_bit_map(lag_map))

    @raises(MULTICAST_ERRORS)
    def bm_mc_node_associate(self, cxt_id: I32, mgrp_handle: I32, l1_handle: I32) -> None:
        self._runtime.mc_node_associate(mgrp_handle, l1_handle)

    @raises(MULTICAST_ERRORS)
    def bm_mc_node_dissociate(self, cxt_id: I32, mgrp_handle: I32, l1_handle: I32) -> None:
        self._runtime.mc_node_dissociate(mgrp_handle, l1_handle)

    @raises(MULTICAST_ERRORS)
    def bm_mc_node_destroy(self, cxt_id: I32, l1_handle: I32) -> None:
        self._runtime.mc_node_destroy(l1_handle)

    @raises(MULTICAST_ERRORS)
    def bm_mc_node_update(self, cxt_id: I32, l1_handle: I32, port_map: str, lag_map: str) -> None:
        self._runtime.mc_node_update(l1_handle, parse_bit_map(port_map), parse_bit_map(lag_map))

    @raises(MULTICAST_ERRORS)
    def bm_mc_set_lag_membership(self, cxt_id: I32, lag_index: I16, port_map: str) -> None:
        self._runtime.mc_set_lag(lag_index, parse_bit_map(port_map))

    @raises(MULTICAST_ERRORS)
    def bm_mc_get_entries(self, cxt_id: I32) -> str:
        """Return BMv2's JSON of all groups, and of the nodes that are in a group (simple_pre.cpp)."""
        multicast = self._runtime.multicast()
        nodes = [node for group in multicast["groups"] for node in group["nodes"]]
        entries = {
            "mgrps": [
                {"id": group["group"], "l1_handles": [node["handle"] for node in group["nodes"]]}
                for group in multicast["groups"]
            ],
            "l1_handles": [
                {"handle": node["handle"], "rid": node["rid"], "l2_handle": node["handle"]} for node in nodes
            ],
            "l2_handles": [
                {"handle": node["handle"], "ports": node["ports"], "lags": node["lags"]} for node in nodes
            ],
            "lags": [{"id": lag["lag"], "ports": lag["ports"]} for lag in multicast["lags"]],
        }
        return json.dumps(entries)


class SimpleSwitchService:
    """Calls on mirroring sessions, queues and the time."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    # -- mirroring; `mapping_add` and `mapping_delete` return 1 if they succeed

    def mirroring_mapping_add(self, mirror_id: I32, egress_port: I32) -> I32:
        self._runtime.mirror_set(mirror_id, port=egress_port, group=None)
        return True

    def mirroring_mapping_delete(self, mirror_id: I32) -> I32:
        try:
            self._runtime.mirror_delete(mirror_id)
        except RuntimeRefusal:
            return False
        return True

    def mirroring_mapping_get_egress_port(self, mirror_id: I32) -> I32:
        try:
            port = self._runtime.mirror(mirror_id)["port"]
        except RuntimeRefusal:
            return _NO_PORT
        return _NO_PORT if port is None else port

    @raises(MIRRORING_ERRORS)
    def mirroring_session_add(self, mirror_id: I32, config: MirroringSession) -> None:
        self._runtime.mirror_set(mirror_id, config.port, config.mgid)

    @raises(MIRRORING_ERRORS)
    def mirroring_session_delete(self, mirror_id: I32) -> None:
        self._runtime.mirror_delete(mirror_id)

    @raises(MIRRORING_ERRORS)
    def mirroring_session_get(self, mirror_id: I32) -> MirroringSession:
        mirror = self._runtime.mirror(mirror_id)
        return MirroringSession(mirror["port"], mirror["group"])

    # -- queues

    def set_egress_priority_queue_depth(self, port_num: I32, priority: I32, depth_pkts: I32) -> I32:
        return self._set_queues(port_num, priority, depth=depth_pkts)

    def set_egress_queue_depth(self, port_num: I32, depth_pkts: I32) -> I32:
        return self._set_queues(port_num, depth=depth_pkts)

    def set_all_egress_queue_depths(self, depth_pkts: I32) -> I32:
        return self._set_queues(depth=depth_pkts)

    def set_egress_priority_queue_rate(self, port_num: I32, priority: I32, rate_pps: I64) -> I32:
        return self._set_queues(port_num, priority, rate=rate_pps)

    def set_egress_queue_rate(self, port_num: I32, rate_pps: I64) -> I32:
        return self._set_queues(port_num, rate=rate_pps)

    def set_all_egress_queue_rates(self, rate_pps: I64) -> I32:
        return self._set_queues(rate=rate_pps)

    def _set_queues(
        self,
        port: int | None = None,
        priority: int | None = None,
        rate: int | None = None,
        depth: int | None = None,
    ) -> int:
        self._runtime.queue_set(port, priority, rate, depth)
        return _QUEUE_SET

    # -- time

    def get_time_elapsed_us(self) -> I64:
        return self._runtime.time()["elapsed"]

    def get_time_since_epoch_us(self) -> I64:
        return self._runtime.time()["epoch"]
