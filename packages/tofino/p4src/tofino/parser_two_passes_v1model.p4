// Parser and deparser of the twin with two passes. Bytes after what a pass parses are its payload.
parser HotlineParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        meta.ingress_port = std.ingress_port;
        meta.is_second = 0;
        meta.first_is_answered = 1;
        meta.first_served = 0;
        transition select(std.ingress_port) {
            CPU_PORT: parse_packet_out;
            RECIRCULATION_PORT: parse_pass;
            default: parse_ethernet;
        }
    }

    state parse_packet_out {
        packet.extract(hdr.packet_out);
        transition select(hdr.packet_out.submit_to_ingress) {
            1: parse_ethernet;
            default: accept;
        }
    }

    state parse_pass {
        packet.extract(hdr.pass);
        meta.ingress_port = hdr.pass.ingress_port;
        meta.is_second = 1;
        meta.first_is_answered = hdr.pass.is_answered;
        meta.first_served = hdr.pass.served;
        transition parse_ethernet;
    }

    state parse_ethernet {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHERTYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.flags, hdr.ipv4.frag_offset,
                          hdr.ipv4.protocol) {
            (4, 5, 0 &&& IPV4_MORE_FRAGMENTS, 0, PROTOCOL_UDP): parse_udp;
            default: accept;
        }
    }

    state parse_udp {
        packet.extract(hdr.udp);
        transition select(hdr.udp.src_port, hdr.udp.dst_port) {
            (_, HOTLINE_PORT): parse_rpc;
            (HOTLINE_PORT, _): parse_rpc;
            default: accept;
        }
    }

    // Lanes of answers are not parsed.
    state parse_rpc {
        packet.extract(hdr.rpc);
        meta.live = hdr.rpc.live[15:0];
        meta.remaining = hdr.rpc.count;
        meta.others = 0;
        transition select(hdr.rpc.flags, meta.is_second, hdr.rpc.count) {
            (FLAG_KEYS &&& (FLAG_KEYS | FLAG_RESPONSE), _, 0): accept;
            (FLAG_KEYS &&& (FLAG_KEYS | FLAG_RESPONSE), 0, 0 &&& 0xf0): parse_keys;     // fewer than 16 lanes
            (FLAG_KEYS &&& (FLAG_KEYS | FLAG_RESPONSE), 0, PASS_LANES): parse_keys;
            (FLAG_KEYS &&& (FLAG_KEYS | FLAG_RESPONSE), 0, _): first_pass;
            (FLAG_KEYS &&& (FLAG_KEYS | FLAG_RESPONSE), 1, _): second_pass;
            default: accept;
        }
    }

    state first_pass {
        meta.remaining = PASS_LANES;
        meta.others = hdr.rpc.count - PASS_LANES;
        transition parse_keys;
    }

    state second_pass {
        meta.live = hdr.rpc.live[31:16];
        meta.remaining = hdr.rpc.count - PASS_LANES;
        meta.others = PASS_LANES;
        transition select(hdr.rpc.flags) {
            FLAG_VALUES &&& FLAG_VALUES: parse_keys;
            default: parse_other_keys;
        }
    }

    state parse_keys {
        packet.extract(hdr.keys.next);
        meta.remaining = meta.remaining - 1;
        transition select(meta.remaining, hdr.rpc.flags, meta.others) {
            (0, 0 &&& FLAG_VALUES, _): accept;
            (0, _, 0): before_values;
            (0, _, _): parse_other_keys;
            default: parse_keys;
        }
    }

    state parse_other_keys {
        packet.extract(hdr.other_keys.next);
        meta.others = meta.others - 1;
        transition select(meta.others, meta.is_second) {
            (0, 0): before_values;
            (0, 1): before_other_values;
            default: parse_other_keys;
        }
    }

    state before_other_values {
        meta.others = PASS_LANES;
        transition parse_other_values;
    }

    state parse_other_values {
        packet.extract(hdr.other_values.next);
        meta.others = meta.others - 1;
        transition select(meta.others) {
            0: before_values;
            default: parse_other_values;
        }
    }

    state before_values {       // or before the keys, in the second pass of a pull
        meta.remaining = hdr.rpc.count;
        transition select(hdr.rpc.flags, meta.is_second, hdr.rpc.count) {
            (0 &&& FLAG_VALUES, _, _): keys_of_second_pass;
            (_, 1, _): values_of_second_pass;
            (_, 0, 0 &&& 0xf0): parse_values;               // fewer than 16 lanes
            default: values_of_first_pass;
        }
    }

    state keys_of_second_pass {
        meta.remaining = hdr.rpc.count - PASS_LANES;
        transition parse_keys;
    }

    state values_of_first_pass {
        meta.remaining = PASS_LANES;
        transition parse_values;
    }

    state values_of_second_pass {
        meta.remaining = hdr.rpc.count - PASS_LANES;
        transition parse_values;
    }

    state parse_values {
        packet.extract(hdr.values.next);
        meta.remaining = meta.remaining - 1;
        transition select(meta.remaining) {
            0: accept;
            default: parse_values;
        }
    }
}

control HotlineDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet_in);
        packet.emit(hdr.pass);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.udp);
        packet.emit(hdr.rpc);
        packet.emit(hdr.other_keys);
        packet.emit(hdr.keys);
        packet.emit(hdr.other_values);
        packet.emit(hdr.values);
    }
}
