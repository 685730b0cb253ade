// All registers are in ingress. BMv2 and softswitch run one packet at a time through it, so packets never interleave.
control HotlineIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    counter(DROP_REASONS, CounterType.packets) drops;

    Validate() validate;
    Identify() identify;
    ExactlyOnce() exactly_once;
    Readdress() readdress;
    Forward() forward;
#define DECLARE_LOOKUP(nn, i) LaneLookup(1 << (i)) lookup_##nn;
    REPEAT(DECLARE_LOOKUP)
#undef DECLARE_LOOKUP
#define DECLARE_AGGREGATE(nn, i) LaneAggregate(1 << (i)) aggregate_##nn;
    REPEAT(DECLARE_AGGREGATE)
#undef DECLARE_AGGREGATE

    apply {
        validate.apply(hdr, meta, std);
        if (meta.kind == PacketKind.PACKET_OUT) {
            std.egress_spec = hdr.packet_out.egress_port;
        } else if (meta.kind == PacketKind.OTHER) {
            forward.apply(hdr, meta, std);          // drops a frame without a route
            if (!meta.has_route) {
                drops.count(DropReason.NO_ROUTE);
            }
        } else if (meta.kind != PacketKind.DROPPED) {
            identify.apply(hdr, meta, std);
        }

        if (meta.kind == PacketKind.REQUEST) {
#ifdef PUBLISHES
            bool uses_lanes = meta.is_privileged || (meta.offload == 1 && !meta.is_of_words);
#else
            bool uses_lanes = meta.is_privileged || meta.offload == 1;
#endif
#define DECLARE_SLOT(nn, i) bit<16> slot_##nn = 0;
            REPEAT(DECLARE_SLOT)
#undef DECLARE_SLOT
            if (uses_lanes) {
                bitmap_t privileged_lanes = 0;      // all lanes if the caller reaches entries that are moving
                if (meta.is_privileged) {
                    privileged_lanes = ~privileged_lanes;
                }
#define APPLY_LOOKUP(nn, i) if (hdr.keys[i].isValid()) { \
    lookup_##nn.apply(meta.hits, slot_##nn, privileged_lanes, hdr.rpc.job, hdr.keys[i].key); }
                REPEAT(APPLY_LOOKUP)
#undef APPLY_LOOKUP
                meta.hits = meta.hits & hdr.rpc.live;
            }
            exactly_once.apply(hdr, meta);
            if (!meta.is_duplicate && !meta.is_privileged) {
                meta.counted = hdr.rpc.live;
            }
            // A duplicate push adds nothing.
            if (meta.kind == PacketKind.REQUEST && uses_lanes && !(hdr.rpc.op == Op.PUSH && meta.is_duplicate)) {
#define APPLY_AGGREGATE(nn, i) if (hdr.keys[i].isValid()) { \
    aggregate_##nn.apply(meta, hdr.values[i], slot_##nn, hdr.rpc.op); }
                REPEAT(APPLY_AGGREGATE)
#undef APPLY_AGGREGATE
            }
        }

        readdress.apply(hdr, meta, std);
        hdr.packet_out.setInvalid();
        if (meta.kind == PacketKind.DROPPED) {
            drops.count((bit<32>)meta.drop_reason);
            mark_to_drop(std);
        }
    }
}
