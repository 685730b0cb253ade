// Nothing half-valid is aggregated: BMv2 goes on into ingress after a parser error, so ingress asks first.
control Validate(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std,
                 out drop_reason_t reason) {
    bit<16> lane_bytes = 0;
    bool is_request = false;

    action request(bit<16> bytes_a_lane_log2) {
        is_request = true;
        lane_bytes = (bit<16>)hdr.rpc.count << (bit<8>)bytes_a_lane_log2;
    }

    action push_request() {
        is_request = true;
        lane_bytes = ((bit<16>)hdr.rpc.count << 3) + ((bit<16>)hdr.rpc.count << 2);
    }

    action answer() {
        meta.is_answer = true;
    }

    action pull_answer() {
        meta.is_answer = true;
        lane_bytes = (bit<16>)hdr.rpc.count << 2;
    }

    // What follows a CONTROL header is between controller and PS.
    action control_answer() {
        meta.is_control = true;
        lane_bytes = hdr.udp.length - UDP_BYTES - RPC_BYTES;
    }

    action bad_shape() {
        meta.dropped = true;
        reason = DROP_BAD_SHAPE;
    }

    table shapes {
        key = {
            hdr.rpc.op: exact @name("op");
            hdr.rpc.flags: exact @name("flags");
        }
        actions = { request; push_request; answer; pull_answer; control_answer; bad_shape; }
        const default_action = bad_shape();
        const entries = {
            // From workers. Lanes that the switch has served are marked only on its way to the PS.
            (OP_PULL, FLAG_KEYS): request(3);
            (OP_PUSH, FLAG_KEYS | FLAG_VALUES): push_request();
            (OP_EMPTY, 0): request(0);
            // From parameter servers: a push is acknowledged, a pull has values.
            (OP_PULL, FLAG_RESPONSE | FLAG_VALUES): pull_answer();
            (OP_PUSH, FLAG_RESPONSE): answer();
            (OP_EMPTY, FLAG_RESPONSE): answer();
            (OP_CONTROL, FLAG_RESPONSE): control_answer();
        }
    }

    apply {
        reason = DROP_PARSER_ERROR;
        meta.dropped = true;
        if (std.parser_error != error.NoError) {
            reason = DROP_PARSER_ERROR;
        } else if (std.checksum_error == 1) {
            reason = DROP_BAD_CHECKSUM;
        } else if (hdr.ipv4.isValid() && hdr.ipv4.protocol == PROTOCOL_UDP
                   && (hdr.ipv4.frag_offset != 0 || hdr.ipv4.flags[0:0] == 1)) {
            reason = DROP_FRAGMENT;
        } else if (hdr.ipv4.isValid() && hdr.ipv4.protocol == PROTOCOL_UDP && !hdr.udp.isValid()
                   || hdr.ethernet.ether_type == ETHERTYPE_VLAN
                   || hdr.ethernet.ether_type == ETHERTYPE_SERVICE_VLAN) {
            // Behind options or a tag an RPC would reach its PS unasked who sent it.
            reason = DROP_BAD_SHAPE;
        } else {
            meta.dropped = false;
            if (hdr.rpc.isValid() && hdr.rpc.version != VERSION) {
                meta.dropped = true;
                reason = DROP_WRONG_VERSION;
            } else if (hdr.rpc.isValid()) {
                shapes.apply();
                if (!meta.dropped) {
                    bitmap_t beyond = hdr.rpc.live >> hdr.rpc.count;
                    if (hdr.rpc.reserved != 0 || hdr.rpc.count > LANES || beyond != 0
                        || (is_request && (hdr.rpc.served | hdr.rpc.refused) != 0)
                        || (hdr.rpc.op == OP_EMPTY && hdr.rpc.count != 0)
                        || (hdr.rpc.op != OP_EMPTY && !meta.is_control && hdr.rpc.live == 0)) {
                        bad_shape();
                    } else if (hdr.udp.length < UDP_BYTES + RPC_BYTES
                               || hdr.udp.length != UDP_BYTES + RPC_BYTES + lane_bytes
                               || hdr.ipv4.total_len != IPV4_BYTES + hdr.udp.length
                               || std.packet_length != (bit<32>)(meta.prefix_bytes + ETHERNET_BYTES
                                                                 + hdr.ipv4.total_len)) {
                        meta.dropped = true;
                        reason = DROP_BAD_LENGTH;
                    }
                }
            }
        }
    }
}
