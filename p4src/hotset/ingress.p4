// All state lives in ingress: one packet at a time passes it, so a packet sees and changes all or nothing.
control HotlineIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    counter(DROP_REASONS, CounterType.packets) drops;

    Validate() validate;
    Identify() identify;
    ExactlyOnce() exactly_once;
    Readdress() readdress;
    Forward() forward;
#define LOOKUP(nn, i) LaneLookup(1 << i) lookup_##nn;
    REPEAT(LOOKUP)
#undef LOOKUP
#define AGGREGATE(nn, i) LaneAggregate(i) aggregate_##nn;
    REPEAT(AGGREGATE)
#undef AGGREGATE

    apply {
        drop_reason_t reason = DROP_PARSER_ERROR;
        if (hdr.packet_out.isValid() && hdr.packet_out.egress_port != 0) {
            std.egress_spec = hdr.packet_out.egress_port;
        } else {
            validate.apply(hdr, meta, std, reason);
            if (!meta.dropped && !hdr.rpc.isValid()) {
                forward.apply(hdr, meta, std, reason);
            } else if (!meta.dropped) {
                identify.apply(hdr, meta, std, reason);
                if (!meta.dropped && !meta.is_answer && !meta.is_control) {
                    bool by_lane = meta.offload == 1 || meta.is_privileged;
#define SLOT(nn, i) bit<16> slot_##nn = 0;
                    REPEAT(SLOT)
#undef SLOT
                    if (by_lane) {
                        bitmap_t in_reach = 0;      // lanes whose moving entries this caller reaches
                        if (meta.is_privileged) {
                            in_reach = ~in_reach;
                        }
#define LOOKUP(nn, i) if (hdr.keys[i].isValid()) { \
    lookup_##nn.apply(meta.hits, slot_##nn, in_reach, hdr.rpc.job, hdr.keys[i].key); }
                        REPEAT(LOOKUP)
#undef LOOKUP
                        meta.hits = meta.hits & hdr.rpc.live;
                    }
                    exactly_once.apply(hdr, meta, reason);
                    meta.counted = hdr.rpc.live;
                    if (meta.is_duplicate || meta.is_privileged) {
                        meta.counted = 0;
                    }
                    // A duplicate push adds nothing.
                    if (!meta.dropped && by_lane && !(hdr.rpc.op == OP_PUSH && meta.is_duplicate)) {
#define AGGREGATE(nn, i) if (hdr.keys[i].isValid()) { \
    aggregate_##nn.apply(meta, hdr.values[i], slot_##nn, hdr.rpc.op); }
                        REPEAT(AGGREGATE)
#undef AGGREGATE
                    }
                }
                if (!meta.dropped) {
                    readdress.apply(hdr, meta, std);
                }
            }
        }
        hdr.packet_out.setInvalid();
        if (meta.dropped) {
            drops.count(reason);
            mark_to_drop(std);
        }
    }
}
