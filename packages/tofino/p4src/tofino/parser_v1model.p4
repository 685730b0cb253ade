// The twin's parser. The lanes of an RPC that is relayed are not parsed.
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
#if DIM == 1
        transition select(hdr.rpc.flags, hdr.rpc.count) {
            (_, 0): accept;
            (FLAG_KEYS &&& FLAG_KEYS, _): parse_keys;
            (FLAG_VALUES &&& FLAG_VALUES, _): before_words;
            default: accept;
        }
#else
        transition select(hdr.rpc.flags, hdr.rpc.dim, hdr.rpc.count) {
            (FLAG_KEYS &&& FLAG_KEYS, DIM, 1): parse_keys;
            (FLAG_VALUES &&& FLAG_VALUES, DIM, 1): before_words;
            default: accept;
        }
#endif
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
        transition select(hdr.rpc.flags) {
            FLAG_VALUES &&& FLAG_VALUES: before_words;
            default: accept;
        }
    }

    state before_words {
        meta.remaining = hdr.rpc.count * DIM;
        transition parse_words;
    }

    state parse_words {
        packet.extract(hdr.words.next);
        meta.remaining = meta.remaining - 1;
        transition select(meta.remaining) {
            0: accept;
            default: parse_words;
        }
    }
}
