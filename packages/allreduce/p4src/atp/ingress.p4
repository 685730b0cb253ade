control HotlineIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    counter(DROP_REASONS, CounterType.packets) drops;

    Identify() identify;
    Claim() claim;
    Bitmaps() bitmaps;
    Congestion() congestion;
    Count() count;
#define DECLARE_VALUE(nn, i) Value() value_##nn;
    REPEAT(DECLARE_VALUE)
#undef DECLARE_VALUE
    NextStep() next_step;
    Forward() forward;

    apply {
        meta.kind = PacketKind.OTHER;
        if (std.parser_error != error.NoError) {
            drop(meta, DropReason.PARSER_ERROR);
        } else if (hdr.tensor.isValid()) {
            identify.apply(hdr, meta);
        }

        if (meta.kind == PacketKind.ATP) {
            meta.index = (bit<32>)hdr.atp.cell;
            meta.is_congested = hdr.atp.ecn == 1 || hdr.ipv4.diffserv & 3 == CONGESTION_EXPERIENCED;    // 3: ECN bits
            meta.is_owner = false;
            if (meta.index >= CELLS || hdr.ipv4.total_len != PACKET_IPV4_BYTES) {
                drop(meta, DropReason.BAD_SHAPE);
            } else if (!meta.passes_on && (hdr.atp.is_ack == 1 || hdr.atp.overflow == 0)) {  // floats use no cell
                claim.apply(hdr, meta);
            }
        }

        if (meta.kind == PacketKind.ATP && (meta.is_owner || meta.is_new_tensor)) {
            bitmaps.apply(hdr, meta);
            congestion.apply(hdr, meta);
            count.apply(hdr, meta);
            meta.operation = Operation.NONE;
            if (hdr.atp.is_ack == 0 && meta.is_owner) {
                if (!meta.is_fresh) {
                    meta.operation = Operation.READ;
                } else if (meta.seen_before == 0 && !meta.is_complete) {  // complete: only with one worker
                    meta.operation = Operation.WRITE;
                } else {
                    meta.operation = Operation.ADD;
                }
            }
#define APPLY_VALUE(nn, i) value_##nn.apply(hdr.values.v##nn, meta);
            REPEAT(APPLY_VALUE)
#undef APPLY_VALUE
        }

        if (meta.kind == PacketKind.ATP) {
            next_step.apply(hdr, meta, std);
        }
        if (meta.kind == PacketKind.OTHER || (meta.kind == PacketKind.ATP && meta.is_forwarded)) {
            forward.apply(hdr, meta, std);
        }
        if (meta.kind == PacketKind.DROPPED) {
            drops.count((bit<32>)meta.drop_reason);
            mark_to_drop(std);
        }
    }
}
