// Where an RPC goes next, and what it then looks like: the connection proxy.
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
        set_lane_bytes((bit<16>)hdr.rpc.count << 2);
        to_worker();
    }

    action answer_push() {
        hdr.rpc.flags = FLAG_RESPONSE;
        hdr.keys.pop_front(LANES);
        hdr.values.pop_front(LANES);
        set_lane_bytes(0);
        to_worker();
    }

    // A pull that missed in every lane goes on as it came.
    action drop_values() {
        hdr.values.pop_front(LANES);
    }

    // A pull that was served in part carries those values past the PS.
    action add_values() {
        hdr.rpc.flags = FLAG_KEYS | FLAG_VALUES;
        set_lane_bytes(((bit<16>)hdr.rpc.count << 3) + ((bit<16>)hdr.rpc.count << 2));
    }

    apply {
        if (meta.is_control) {
            std.egress_spec = CPU_PORT;
        } else if (meta.is_answer) {
            rpcs.count(RPC_RELAYED);
            to_worker();
        } else {
            hdr.rpc.served = meta.served;
            if (meta.is_duplicate) {
                rpcs.count(RPC_DUPLICATE);
            }
            if (hdr.rpc.op != OP_EMPTY && (meta.is_privileged || meta.served == hdr.rpc.live)) {
                rpcs.count(RPC_ANSWERED);
                if (hdr.rpc.op == OP_PULL) {
                    answer_pull();
                } else {
                    answer_push();
                }
            } else {
                rpcs.count(RPC_FORWARDED);
                if (hdr.rpc.op == OP_PULL) {
                    if (meta.served == 0) {
                        drop_values();
                    } else {
                        add_values();
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
