control HotlineIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    counter(DROP_REASONS, CounterType.packets) drops;

    Identify() identify;
    StaleChunkFilter() stale_chunk_filter;
    Bitmaps() bitmaps;
    SlotTimeout() slot_timeout;
    Count() count;
    Exponents() exponents;
#define DECLARE_VALUE(nn, i) Value() value_##nn;
    REPEAT(DECLARE_VALUE)
#undef DECLARE_VALUE
#ifdef HAS_CUT_BITS
    CutBits() cut_bits;
#endif
    NextStep() next_step;
    Forward() forward;

    apply {
        meta.kind = PacketKind.OTHER;
        if (std.parser_error != error.NoError) {
            drop(meta, DropReason.PARSER_ERROR);
        } else if (hdr.values.isValid()) {
            identify.apply(hdr, meta);
        }

        if (meta.kind == PacketKind.REQUEST) {
            meta.index = (bit<32>)hdr.switchml.slot << 1 | (bit<32>)hdr.switchml.pool_set;
            if (hdr.switchml.size != SIZE || (bit<32>)hdr.switchml.slot >= SLOTS
                || hdr.ipv4.total_len != PACKET_IPV4_BYTES) {
                drop(meta, DropReason.BAD_SHAPE);
            } else {
                stale_chunk_filter.apply(hdr, meta);
            }
        }

        if (meta.kind == PacketKind.REQUEST) {
            bitmaps.apply(hdr, meta);
            slot_timeout.apply(meta, std.ingress_global_timestamp);
            count.apply(meta);
            exponents.apply(hdr.exponents, meta);
#define APPLY_VALUE(nn, i) value_##nn.apply(hdr.values.v##nn, meta);
            REPEAT(APPLY_VALUE)
#undef APPLY_VALUE
#ifdef HAS_CUT_BITS
            cut_bits.apply(hdr.cut.bits, meta);
#endif
            next_step.apply(hdr, meta, std);
        } else if (meta.kind == PacketKind.OTHER) {
            forward.apply(hdr, meta, std);
        } else {
            drops.count((bit<32>)meta.drop_reason);
            mark_to_drop(std);
        }
    }
}
