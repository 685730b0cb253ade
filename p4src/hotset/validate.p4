// Finds the kind of a packet, and drops packets that are not well-formed. v1model continues with ingress after a
// parser error, so this control checks for one.
control Validate(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    bit<16> lane_bytes = 0;     // of all lanes together

    // A lane has a key and the bytes of one value as often as the row has values, or has none.
    action request(bit<16> key_bytes, bit<16> value_bytes) {
        meta.kind = PacketKind.REQUEST;
        lane_bytes = (bit<16>)hdr.rpc.count * (key_bytes + (bit<16>)hdr.rpc.dim * value_bytes);
    }

#ifdef PUBLISHES
    action request_of_words(bit<16> key_bytes, bit<16> value_bytes) {
        request(key_bytes, value_bytes);
        meta.is_of_words = true;
    }
#endif

    action answer(bit<16> value_bytes) {
        meta.kind = PacketKind.ANSWER;
        lane_bytes = (bit<16>)hdr.rpc.count * (bit<16>)hdr.rpc.dim * value_bytes;
    }

    action partly_served_pull(bit<16> key_bytes, bit<16> value_bytes) {
        request(key_bytes, value_bytes);
        meta.is_from_switch = true;
    }

    // The body of a CONTROL packet is between the parameter server and the controller, and has any length.
    action set_control(PacketKind kind) {
        meta.kind = kind;
        lane_bytes = hdr.udp.length - UDP_BYTES - RPC_BYTES;
    }

    action command() {
        set_control(PacketKind.COMMAND);
        meta.is_from_switch = true;
    }

    action control_answer() {
        set_control(PacketKind.CONTROL_ANSWER);
    }

    table shapes {
        key = {
            hdr.rpc.op: exact @name("op");
            hdr.rpc.flags: exact @name("flags");
        }
        actions = {
            request; partly_served_pull; answer; command; control_answer;
#ifdef PUBLISHES
            request_of_words;
#endif
            @defaultonly drop(meta);
        }
        const default_action = drop(meta, DropReason.BAD_SHAPE);
        const entries = {
            // From callers. Only a switch marks lanes as served, on the way to the parameter server, and a pull that
            // is served in part has values from there on.
            (Op.PULL, FLAG_KEYS): request(KEY_BYTES, 0);
            (Op.PULL, FLAG_KEYS | FLAG_VALUES): partly_served_pull(KEY_BYTES, VALUE_BYTES);
            (Op.PUSH, FLAG_KEYS | FLAG_VALUES): request(KEY_BYTES, VALUE_BYTES);
            (Op.EMPTY, 0): request(0, 0);
#ifdef PUBLISHES
            (Op.PULL, FLAG_KEYS | FLAG_FIRST): request_of_words(KEY_BYTES, 0);
            (Op.PULL, FLAG_KEYS | FLAG_SECOND): request_of_words(KEY_BYTES, 0);
            (Op.PUSH, FLAG_KEYS | FLAG_VALUES | FLAG_SET): request_of_words(KEY_BYTES, VALUE_BYTES);
            (Op.PUSH, FLAG_KEYS | FLAG_VALUES | FLAG_SET | FLAG_FIRST): request_of_words(KEY_BYTES, VALUE_BYTES);
            (Op.PUSH, FLAG_KEYS | FLAG_VALUES | FLAG_SET | FLAG_SECOND): request_of_words(KEY_BYTES, VALUE_BYTES);
            (Op.PUSH, FLAG_KEYS | FLAG_VALUES | FLAG_REPLAY): request_of_words(KEY_BYTES, VALUE_BYTES);
#endif
            // From parameter servers. The answer of a pull has values, that of a push has none.
            (Op.PULL, FLAG_RESPONSE | FLAG_VALUES): answer(VALUE_BYTES);
            (Op.PUSH, FLAG_RESPONSE): answer(0);
            (Op.EMPTY, FLAG_RESPONSE): answer(0);
            (Op.CONTROL, 0): command();
            (Op.CONTROL, FLAG_RESPONSE): control_answer();
        }
    }

    apply {
        bool is_udp = hdr.ipv4.isValid() && hdr.ipv4.protocol == PROTOCOL_UDP;
        if (hdr.packet_out.isValid() && hdr.packet_out.submit_to_ingress == 0) {
            meta.kind = PacketKind.PACKET_OUT;
        } else if (std.parser_error != error.NoError) {
            drop(meta, DropReason.PARSER_ERROR);
        } else if (std.checksum_error == 1) {
            drop(meta, DropReason.BAD_CHECKSUM);
        } else if (is_udp && (hdr.ipv4.frag_offset != 0 || hdr.ipv4.flags & IPV4_MORE_FRAGMENTS != 0)) {
            drop(meta, DropReason.FRAGMENT);
        } else if (is_udp && !hdr.udp.isValid()
                   || hdr.ethernet.ether_type == ETHERTYPE_VLAN
                   || hdr.ethernet.ether_type == ETHERTYPE_SERVICE_VLAN) {
            // An RPC behind IP options or a tag is not parsed, and would reach its server without any check.
            drop(meta, DropReason.BAD_SHAPE);
        } else if (!hdr.rpc.isValid()) {
            meta.kind = PacketKind.OTHER;
        } else if (hdr.rpc.version != WIRE_VERSION) {
            drop(meta, DropReason.WRONG_VERSION);
        } else if (shapes.apply().hit) {
            meta.is_scalar = hdr.rpc.dim == 1;
            bool has_dim = meta.is_scalar || hdr.rpc.dim >= QUAD && hdr.rpc.dim & (hdr.rpc.dim - 1) == 0;
            if (meta.kind == PacketKind.REQUEST && (hdr.rpc.served | hdr.rpc.refused) != 0) {
                meta.is_from_switch = true;
            }
            bool has_lanes = hdr.rpc.op != Op.EMPTY && hdr.rpc.op != Op.CONTROL;
            if (hdr.rpc.count > LANES || hdr.rpc.live >> hdr.rpc.count != 0
                || hdr.rpc.op != Op.CONTROL && !has_dim || (bit<16>)hdr.rpc.count * (bit<16>)hdr.rpc.dim > QUAD * LANES
                || (hdr.rpc.op == Op.EMPTY && hdr.rpc.count != 0)
                || (has_lanes && hdr.rpc.live == 0)) {
                drop(meta, DropReason.BAD_SHAPE);
            } else if (hdr.udp.length < UDP_BYTES + RPC_BYTES
                       || hdr.udp.length != UDP_BYTES + RPC_BYTES + lane_bytes
                       || hdr.ipv4.total_len != IPV4_BYTES + hdr.udp.length
                       || std.packet_length != (bit<32>)(meta.prefix_bytes + ETHERNET_BYTES
                                                         + hdr.ipv4.total_len)) {
                drop(meta, DropReason.BAD_LENGTH);
            }
        }
    }
}
