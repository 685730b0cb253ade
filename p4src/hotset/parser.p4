parser HotlineParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                     inout standard_metadata_t std) {
    UdpParser() udp_parser;
    bit<16> src_port;
    bit<16> dst_port;

    state start {
        meta.prefix_bytes = 0;
        transition select(std.ingress_port) {
            CPU_PORT: parse_packet_out;
            default: parse_frame;
        }
    }

    state parse_packet_out {
        packet.extract(hdr.packet_out);
        meta.prefix_bytes = PACKET_OUT_BYTES;
        transition select(hdr.packet_out.submit_to_ingress) {
            1: parse_frame;
            default: accept;
        }
    }

    state parse_frame {
        udp_parser.apply(packet, hdr.ethernet, hdr.ipv4, hdr.udp, src_port, dst_port);
        transition select(src_port, dst_port) {
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
            default: accept;                        // the values of an answer pass as they came
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
        transition select(hdr.rpc.flags, hdr.rpc.dim) {
            (FLAG_VALUES &&& FLAG_VALUES, 1): parse_words;
            (FLAG_VALUES &&& FLAG_VALUES, _): before_quads;
            default: accept;
        }
    }

    state parse_words {
        packet.extract(hdr.words.next);
        meta.remaining = meta.remaining - 1;
        transition select(meta.remaining) {
            0: accept;
            default: parse_words;
        }
    }

    // Without a quad, the dim is too small, and `validate` drops the packet.
    state before_quads {
        bit<16> values = (bit<16>)hdr.rpc.count * (bit<16>)hdr.rpc.dim;
        meta.remaining = values[9:2];
        transition select(meta.remaining) {
            0: accept;
            default: parse_quads;
        }
    }

    state parse_quads {
        packet.extract(hdr.quads.next);
        meta.remaining = meta.remaining - 1;
        transition select(meta.remaining) {
            0: accept;
            default: parse_quads;
        }
    }
}
