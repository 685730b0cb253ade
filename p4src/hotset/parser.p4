parser HotlineParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                     inout standard_metadata_t std) {
    state start {
        meta.prefix_bytes = 0;
        transition select(std.ingress_port) {
            CPU_PORT: parse_packet_out;
            default: parse_ethernet;
        }
    }

    state parse_packet_out {
        packet.extract(hdr.packet_out);
        meta.prefix_bytes = PACKET_OUT_BYTES;
        transition select(hdr.packet_out.submit_to_ingress) {
            1: parse_ethernet;
            default: accept;
        }
    }

    state parse_ethernet {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHERTYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }

    // Fragments are not parsed further, because only the first one has ports.
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

    state parse_rpc {
        packet.extract(hdr.rpc);
        meta.remaining = hdr.rpc.count;
        transition select(hdr.rpc.flags, hdr.rpc.count) {
            (_, 0): accept;
            (FLAG_KEYS &&& FLAG_KEYS, _): parse_keys;
            (FLAG_VALUES &&& FLAG_VALUES, _): parse_values;
            default: accept;
        }
    }

    state parse_keys {
        packet.extract(hdr.keys.next);
        meta.remaining = meta.remaining - 1;
        transition select(meta.remaining) {
            0: after_keys;
            default: parse_keys;
        }
    }

    state after_keys {
        meta.remaining = hdr.rpc.count;
        transition select(hdr.rpc.flags) {
            FLAG_VALUES &&& FLAG_VALUES: parse_values;
            default: accept;
        }
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
