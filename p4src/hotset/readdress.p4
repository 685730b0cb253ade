// Rewrites an RPC for its next hop: the connection proxy.
control Readdress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    counter(RPC_OUTCOMES, CounterType.packets) rpcs;

    action from_service() {
        hdr.ethernet.src_addr = meta.service.mac;
        hdr.ipv4.src_addr = meta.service.addr;
        hdr.udp.src_port = meta.service.udp_port;
    }

    action to_worker() {
        from_service();
        hdr.ethernet.dst_addr = meta.worker.mac;
        hdr.ipv4.dst_addr = meta.worker.addr;
        hdr.udp.dst_port = meta.worker.udp_port;
        hdr.udp.checksum = 0;
        std.egress_spec = meta.worker.port;
    }

    action to_server() {
        hdr.ethernet.dst_addr = meta.server.mac;
        hdr.ipv4.dst_addr = meta.server.addr;
        hdr.udp.dst_port = meta.server.udp_port;
        hdr.udp.checksum = 0;
        std.egress_spec = meta.server.port;
    }

    action set_lane_bytes(bit<16> lane_bytes) {
        hdr.udp.length = UDP_BYTES + RPC_BYTES + lane_bytes;
        hdr.ipv4.total_len = IPV4_BYTES + UDP_BYTES + RPC_BYTES + lane_bytes;
    }

    action answer_pull() {
        hdr.rpc.flags = FLAG_RESPONSE | FLAG_VALUES;
        hdr.keys.pop_front(LANES);
        set_lane_bytes((bit<16>)hdr.rpc.count * (bit<16>)hdr.rpc.dim * VALUE_BYTES);
        to_worker();
    }

    action remove_values() {
        hdr.words.pop_front(LANES);
        hdr.quads.pop_front(LANES);
    }

    action answer_push() {
        hdr.rpc.flags = FLAG_RESPONSE;
        hdr.keys.pop_front(LANES);
        remove_values();
        set_lane_bytes(0);
        to_worker();
    }

    // A pull that was served in part carries the values of the served lanes past the parameter server.
    action keep_values() {
        hdr.rpc.flags = FLAG_KEYS | FLAG_VALUES;
        set_lane_bytes((bit<16>)hdr.rpc.count * (KEY_BYTES + (bit<16>)hdr.rpc.dim * VALUE_BYTES));
    }

    apply {
        if (meta.kind == PacketKind.CONTROL_ANSWER) {
            std.egress_spec = CPU_PORT;
        } else if (meta.kind == PacketKind.ANSWER) {
            rpcs.count(RpcOutcome.RELAYED);
            to_worker();
        } else if (meta.kind == PacketKind.REQUEST) {
            hdr.rpc.served = meta.served;
            if (meta.is_duplicate) {
                rpcs.count(RpcOutcome.DUPLICATES);
            }
            if (hdr.rpc.op != Op.EMPTY && (meta.is_privileged || meta.served == hdr.rpc.live)) {
                rpcs.count(RpcOutcome.ANSWERED);
                if (hdr.rpc.op == Op.PULL) {
                    answer_pull();
                } else {
                    answer_push();
                }
            } else {
                rpcs.count(RpcOutcome.FORWARDED);
                if (hdr.rpc.op == Op.PULL) {
                    if (meta.served == 0) {
                        remove_values();        // forwarded as it came
                    } else {
                        keep_values();
                    }
                }
                if (meta.proxy == 1) {
                    from_service();
                }
                to_server();
            }
        }
    }
}
