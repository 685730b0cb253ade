// One lane's values, touched once a packet. 32-bit fixed point that wraps: exact, order-free, invertible.
// `fill`: this pull takes values along, whether this lane is served or not.
control LaneAggregate(in metadata_t meta, inout value_t value, in bit<16> slot, in bit<8> op,
                      in bitmap_t live, in bool fill)
                     (bitmap_t lane) {
    register<bit<32>>(SLOTS) values;
    counter(LANE_EVENTS, CounterType.packets) lane_stats;

    apply {
        bit<32> held = 0;
        if ((meta.served & lane) != 0) {
            values.read(held, (bit<32>)slot);
            if (op == OP_PUSH) {
                bit<32> sum = held + value.value;
                values.write((bit<32>)slot, sum);
                bit<32> flipped = (held ^ sum) & (value.value ^ sum);
                if (flipped[31:31] == 1) {
                    lane_stats.count(LANE_OVERFLOW);
                }
            }
        }
        if (fill) {
            value.setValid();
            value.value = held;
        }
        if (!meta.is_duplicate && !meta.is_privileged && (live & lane) != 0) {
            if ((meta.served & lane) != 0) {
                lane_stats.count(LANE_HIT);
            } else {
                lane_stats.count(LANE_MISS);
            }
        }
    }
}
