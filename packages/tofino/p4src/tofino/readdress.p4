// Rewrites an RPC for its next hop, as hotset/readdress.p4 does. A counter is reached once a packet, and from one table
// (bf-p4c gives each stage cells of its own), so duplicates and relayed answers have counters of their own. A chip does
// not multiply, so lengths are entries of a table.
control Readdress(inout headers_t hdr, inout metadata_t meta, inout port_t egress_port) {
    PACKET_COUNTER(rpcs, RPC_OUTCOMES)
    PACKET_COUNTER(relayed, 1)

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
        egress_port = meta.worker.port;
    }

    action to_server() {
        hdr.ethernet.dst_addr = meta.server.mac;
        hdr.ipv4.dst_addr = meta.server.addr;
        hdr.udp.dst_port = meta.server.udp_port;
        hdr.udp.checksum = 0;
        egress_port = meta.server.port;
    }

    action remove_keys() {
#define REMOVE_KEY(nn, i) hdr.keys[i].setInvalid();
        EACH_LANE(REMOVE_KEY)
#undef REMOVE_KEY
    }

    action remove_values() {
#define REMOVE_VALUE(nn, i) hdr.words[i].setInvalid();
        EACH_VALUE(REMOVE_VALUE)
#undef REMOVE_VALUE
    }

    action answer_pull(bit<16> udp_length, bit<16> total_len) {
        hdr.rpc.flags = FLAG_RESPONSE | FLAG_VALUES;
        hdr.udp.length = udp_length;
        hdr.ipv4.total_len = total_len;
        remove_keys();
    }

    action answer_push() {
        hdr.rpc.flags = FLAG_RESPONSE;
        hdr.udp.length = UDP_BYTES + RPC_BYTES;
        hdr.ipv4.total_len = IPV4_BYTES + UDP_BYTES + RPC_BYTES;
        remove_keys();
        remove_values();
    }

    // A pull that was served in part carries the values of the served lanes past the parameter server.
    action keep_values(bit<16> udp_length, bit<16> total_len) {
        hdr.rpc.flags = FLAG_KEYS | FLAG_VALUES;
        hdr.udp.length = udp_length;
        hdr.ipv4.total_len = total_len;
    }


    table pulls {
        key = {
            meta.is_answered: exact @name("is_answered");
            hdr.rpc.count: exact @name("count");
        }
        actions = { answer_pull; keep_values; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 64;
        const entries = {
#define PULLS(nn, i) \
    (1, i + 1): answer_pull(SIZES(DATAGRAM_BYTES(i, DIM * VALUE_BYTES))); \
    (0, i + 1): keep_values(SIZES(DATAGRAM_BYTES(i, KEY_BYTES + DIM * VALUE_BYTES)));
            EACH_LANE(PULLS)
#undef PULLS
        }
    }

    apply {
        if (meta.kind == PacketKind.CONTROL_ANSWER) {
            egress_port = SWITCH_CPU_PORT;
        } else if (meta.kind == PacketKind.ANSWER) {
            COUNT(relayed, 0);
            to_worker();
        } else if (meta.kind == PacketKind.REQUEST) {
            hdr.rpc.served = meta.served;
            if (hdr.rpc.op == Op.PUSH && meta.is_answered == 1) {
                answer_push();
            } else if (hdr.rpc.op == Op.PULL) {
                if (meta.is_answered == 0 && meta.served == 0) {
                    remove_values();
                } else {
                    pulls.apply();
                }
            }
            if (meta.is_answered == 1) {
                COUNT(rpcs, RpcOutcome.ANSWERED);
                to_worker();
            } else {
                COUNT(rpcs, RpcOutcome.FORWARDED);
                if (meta.proxy == 1) {
                    from_service();
                }
                to_server();
            }
        }
    }
}
