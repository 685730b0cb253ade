// Decides what kind of packet this is, and drops what is not well-formed. A chip cannot shift by a variable or
// multiply, and each decision that depends on another takes a stage. So one ternary table decides everything: what is
// parsed, and which dims, lanes, sizes and bitmaps go together.
#define ANY_RPC _, _, _, _, _, _, _, _
#define IN_A_FRAME _, _, _, _, _, _, _, _, _, _, true, WIRE_VERSION     // an RPC of this version, in any frame
// Lanes that a packet with i + 1 lanes must not have live.
#define BEYOND_COUNT(i) 0 &&& ((1 << BITMAP_BITS) - (1 << ((i) + 1)))
#define DATAGRAM_BYTES(i, bytes) (UDP_BYTES + RPC_BYTES + ((i) + 1) * (bytes))
#define SIZES(bytes) (bytes), IPV4_BYTES + (bytes)

control Validate(inout headers_t hdr, inout metadata_t meta, in bit<16> parser_error) {
    action from_cpu() {
        meta.kind = PacketKind.PACKET_OUT;
    }

    action other() {
        meta.kind = PacketKind.OTHER;
    }

    action request(bit<16> udp_length, bit<16> total_len) {
        meta.kind = PacketKind.REQUEST;
        meta.udp_length = udp_length;
        meta.total_len = total_len;
    }

    action relayed_request(bit<16> udp_length, bit<16> total_len) {
        request(udp_length, total_len);
        meta.is_relayed = 1;
    }

    action answer(bit<16> udp_length, bit<16> total_len) {
        meta.kind = PacketKind.ANSWER;
        meta.udp_length = udp_length;
        meta.total_len = total_len;
    }

    // The body of a CONTROL answer is between the parameter server and the controller, and has any length.
    action control_answer(bit<16> min_udp_length, bit<16> ipv4_bytes) {
        meta.kind = PacketKind.CONTROL_ANSWER;
        meta.udp_length = LARGER(hdr.udp.length, min_udp_length);
        meta.total_len = hdr.udp.length + ipv4_bytes;
    }

    table frames {
        key = {
            hdr.packet_out.isValid(): ternary @name("is_packet_out");
            hdr.packet_out.submit_to_ingress: ternary @name("submit_to_ingress");
            meta.bad_checksum: ternary @name("bad_checksum");
            hdr.ethernet.ether_type: ternary @name("ether_type");
            hdr.ipv4.isValid(): ternary @name("is_ipv4");
            hdr.ipv4.ihl: ternary @name("ihl");
            hdr.ipv4.protocol: ternary @name("protocol");
            hdr.ipv4.flags: ternary @name("ipv4_flags");
            hdr.ipv4.frag_offset: ternary @name("frag_offset");
            hdr.udp.isValid(): ternary @name("is_udp");
            hdr.rpc.isValid(): ternary @name("is_rpc");
            hdr.rpc.version: ternary @name("version");
            hdr.rpc.op: ternary @name("op");
            hdr.rpc.flags: ternary @name("flags");
            hdr.rpc.dim: ternary @name("dim");
            hdr.rpc.count: ternary @name("count");
            hdr.rpc.live: ternary @name("live");
            hdr.rpc.served: ternary @name("served");
            hdr.rpc.refused: ternary @name("refused");
        }
        actions = { request; relayed_request; answer; control_answer; from_cpu; other; drop(meta); }
        const default_action = drop(meta, DropReason.WRONG_VERSION);
#if DIM == 1
        size = 128 * ((LANES + 15) / 16);
#else
        size = 512;
#endif
        const entries = {
            (true, 0, _, _, _, _, _, _, _, _, _, ANY_RPC): from_cpu();
            (_, _, true, _, true, 5, _, _, _, _, _, ANY_RPC): drop(meta, DropReason.BAD_CHECKSUM);
            (_, _, _, _, true, _, PROTOCOL_UDP, IPV4_MORE_FRAGMENTS &&& IPV4_MORE_FRAGMENTS, _, _, _, ANY_RPC):
                drop(meta, DropReason.FRAGMENT);
            // An RPC behind IP options or a tag is not parsed, and would reach its server without any check.
            (_, _, _, _, true, _, PROTOCOL_UDP, _, 0, false, _, ANY_RPC): drop(meta, DropReason.BAD_SHAPE);
            (_, _, _, _, true, _, PROTOCOL_UDP, _, _, false, _, ANY_RPC): drop(meta, DropReason.FRAGMENT);
            (_, _, _, ETHERTYPE_VLAN, _, _, _, _, _, _, _, ANY_RPC): drop(meta, DropReason.BAD_SHAPE);
            (_, _, _, ETHERTYPE_SERVICE_VLAN, _, _, _, _, _, _, _, ANY_RPC): drop(meta, DropReason.BAD_SHAPE);
            (_, _, _, _, _, _, _, _, _, _, false, ANY_RPC): other();

#define EMPTY_OF(dim) \
    (IN_A_FRAME, Op.EMPTY, 0, dim, 0, 0, 0, 0): request(SIZES(UDP_BYTES + RPC_BYTES)); \
    (IN_A_FRAME, Op.EMPTY, FLAG_RESPONSE, dim, 0, 0, _, _): answer(SIZES(UDP_BYTES + RPC_BYTES));
            EACH_DIM(EMPTY_OF)
#undef EMPTY_OF
            (IN_A_FRAME, Op.CONTROL, FLAG_RESPONSE, _, 0, 0, _, _): control_answer(UDP_BYTES + RPC_BYTES, IPV4_BYTES);
#define CONTROL(nn, i) (IN_A_FRAME, Op.CONTROL, FLAG_RESPONSE, _, i + 1, BEYOND_COUNT(i), _, _): \
    control_answer(UDP_BYTES + RPC_BYTES, IPV4_BYTES);
            REPEAT(CONTROL)
#undef CONTROL
            // No other RPC is without a live lane.
            (IN_A_FRAME, _, _, _, _, 0, _, _): drop(meta, DropReason.BAD_SHAPE);
#define SHAPES_OF(rows_dim, i, take_request) \
    (IN_A_FRAME, Op.PULL, FLAG_KEYS, rows_dim, i + 1, BEYOND_COUNT(i), 0, 0): \
        take_request(SIZES(DATAGRAM_BYTES(i, KEY_BYTES))); \
    (IN_A_FRAME, Op.PUSH, FLAG_KEYS | FLAG_VALUES, rows_dim, i + 1, BEYOND_COUNT(i), 0, 0): \
        take_request(SIZES(DATAGRAM_BYTES(i, KEY_BYTES + rows_dim * VALUE_BYTES))); \
    (IN_A_FRAME, Op.PULL, FLAG_RESPONSE | FLAG_VALUES, rows_dim, i + 1, BEYOND_COUNT(i), _, _): \
        answer(SIZES(DATAGRAM_BYTES(i, rows_dim * VALUE_BYTES))); \
    (IN_A_FRAME, Op.PUSH, FLAG_RESPONSE, rows_dim, i + 1, BEYOND_COUNT(i), _, _): \
        answer(SIZES(UDP_BYTES + RPC_BYTES));
#define SHAPES(nn, i) SHAPES_OF(DIM, i, request)
            EACH_LANE(SHAPES)
#undef SHAPES
            RELAYED_SHAPES
#undef SHAPES_OF
            (IN_A_FRAME, _, _, _, _, _, _, _): drop(meta, DropReason.BAD_SHAPE);
        }
    }

    apply {
        if (parser_error != 0 || meta.is_malformed) {
            drop(meta, DropReason.PARSER_ERROR);
        } else {
            frames.apply();
        }
    }
}
