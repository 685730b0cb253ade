// All registers are in ingress. BMv2 and softswitch run one packet at a time through it, so packets never interleave.
control HotlineIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    counter(DROP_REASONS, CounterType.packets) drops;

    Validate() validate;
    Identify() identify;
    PassOn() pass_on;
    ExactlyOnce() exactly_once;
    Readdress() readdress;
    Forward() forward;
    ToBundle() to_bundle;
#include "bank_arrays.p4"
#define DECLARE_LANE(nn, i) LaneLookup(1 << (i)) lookup_##nn; bit<16> slot_##nn = 0;
    REPEAT(DECLARE_LANE)

    // The slot of each lane is also that of the bank of the same number. Rows that are twice as long need the banks of
    // two lanes.
    action use_twice_the_banks() {
#define COPY_SLOT(bank, lane) slot_##bank = slot_##lane;
        EACH_BANK_AND_HALF(COPY_SLOT)
    }

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
            if (meta.is_passed_on && meta.kind != PacketKind.DROPPED) {
                pass_on.apply(hdr, meta, std);
            }
        }

        if (meta.kind == PacketKind.REQUEST) {
#ifdef PUBLISHES
            bool uses_lanes = meta.is_privileged || (meta.offload == 1 && !meta.is_of_words);
#else
            bool uses_lanes = meta.is_privileged || meta.offload == 1;
#endif
            if (uses_lanes) {
                if (meta.is_privileged) {
                    meta.privileged_lanes = ~(bitmap_t)0;
                }
#define APPLY_LOOKUP(nn, i) if (hdr.keys[i].isValid()) { \
    lookup_##nn.apply(meta, slot_##nn, hdr.rpc, hdr.keys[i].key); }
                REPEAT(APPLY_LOOKUP)
                meta.hits = meta.hits & hdr.rpc.live;
            }
            exactly_once.apply(hdr, meta);
            bool is_counted = !meta.is_duplicate && !meta.is_privileged;
            // A duplicate push adds nothing.
            if (meta.kind == PacketKind.REQUEST && uses_lanes && !(hdr.rpc.op == Op.PUSH && meta.is_duplicate)) {
                if (meta.is_scalar) {
                    if (is_counted) {
                        meta.counting = hdr.rpc.live;
                    }
#define APPLY_VALUE(nn, i) if (hdr.keys[i].isValid()) { \
    value_##nn.apply(meta, hdr.words[i], slot_##nn, hdr.rpc.op); }
                    REPEAT(APPLY_VALUE)
                } else {
                    if (is_counted) {
                        meta.counting = (bitmap_t)EVERY_BANK;
                    }
#define MARK_COLD_LANE(nn, i) if (hdr.keys[i].isValid() && meta.hits & (1 << (i)) == 0) { \
    slot_##nn = hdr.rpc.live & (1 << (i)) == 0 ? UNUSED : MISS; }
                    REPEAT(MARK_COLD_LANE)
                    if (hdr.rpc.dim >= 2 * QUAD) {
                        use_twice_the_banks();
                        meta.counting = meta.counting & (bitmap_t)EVERY_SECOND_BANK;
                        if (hdr.rpc.dim >= 4 * QUAD) {
                            use_twice_the_banks();
                            meta.counting = meta.counting & (bitmap_t)EVERY_FOURTH_BANK;
                            if (hdr.rpc.dim >= 8 * QUAD) {
                                use_twice_the_banks();
                                meta.counting = meta.counting & (bitmap_t)EVERY_EIGHTH_BANK;
                                if (hdr.rpc.dim >= 16 * QUAD) {
                                    use_twice_the_banks();
                                    meta.counting = meta.counting & (bitmap_t)EVERY_SIXTEENTH_BANK;
                                    if (hdr.rpc.dim >= 32 * QUAD) {
                                        use_twice_the_banks();
                                        meta.counting = meta.counting & (bitmap_t)EVERY_32ND_BANK;
                                    }
                                }
                            }
                        }
                    }
                    bit<16> values = (bit<16>)hdr.rpc.count * (bit<16>)hdr.rpc.dim;
                    bitmap_t banks = ((bitmap_t)1 << values[9:2]) - 1;
#define APPLY_QUAD(nn, i) if (banks & (1 << (i)) != 0) { \
    quad_##nn.apply(meta, hdr.quads[i], slot_##nn, hdr.rpc.op); }
                    REPEAT(APPLY_QUAD)
                }
            }
        }

        readdress.apply(hdr, meta, std);
        hdr.packet_out.setInvalid();
        if (meta.kind == PacketKind.DROPPED) {
            drops.count((bit<32>)meta.drop_reason);
            mark_to_drop(std);
        } else {
            to_bundle.apply(hdr, std);
        }
    }
}
