control HotlineIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    Identify() identify;
    Chunks() chunks;
    Bitmaps() bitmaps;
    Patience() patience;
    Count() count;
    Exponents() exponents;
#define VALUE(nn, i) Value() value_##nn;
    REPEAT(VALUE)
#undef VALUE
    NextStep() next_step;
    Forward() forward;
    counter(DROP_REASONS, CounterType.packets) drops;

    apply {
        drop_reason_t reason = DROP_PARSER_ERROR;
        meta.dropped = false;
        if (std.parser_error != error.NoError) {
            meta.dropped = true;
        } else if (hdr.values.isValid()) {
            identify.apply(hdr, meta);
        }
        if (meta.receiver != 0 && !meta.dropped) {
            meta.index = (bit<32>)hdr.switchml.slot << 1 | (bit<32>)hdr.switchml.pool_set;
            if (hdr.switchml.size != SIZE || hdr.switchml.slot >= SLOTS || hdr.ipv4.total_len != BYTES_IN_IPV4) {
                meta.dropped = true;
                reason = DROP_BAD_SHAPE;
            } else {
                chunks.apply(hdr, meta, reason);
            }
            if (!meta.dropped) {
                bitmaps.apply(hdr, meta);
                patience.apply(meta, std.ingress_global_timestamp);
                count.apply(meta);
                exponents.apply(hdr.exponents, meta);
#define VALUE(nn, i) value_##nn.apply(hdr.values.v##nn, meta);
                REPEAT(VALUE)
#undef VALUE
                next_step.apply(hdr, meta, std);
            }
        } else if (!meta.dropped) {
            forward.apply(hdr, std);
        }
        if (meta.dropped) {
            drops.count(reason);
            mark_to_drop(std);
        }
    }
}
