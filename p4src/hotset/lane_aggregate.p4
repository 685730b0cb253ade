// Adds to or reads the value of one lane, once per packet. Values are 32-bit fixed point that wraps: sums are exact,
// independent of the order, and can be undone.
control LaneAggregate(in metadata_t meta, inout value_t value, in bit<16> slot, in Op op)
                     (bitmap_t lane) {
    register<bit<32>>(SLOTS) values;
    counter(LANE_EVENTS, CounterType.packets) lane_stats;
    counter(SLOTS, CounterType.packets) pushes;     // by slot, as a parameter server counts updates by key

    action push() {
        bit<32> held;
        values.read(held, (bit<32>)slot);
        bit<32> sum = held + value.value;
        values.write((bit<32>)slot, sum);
        // Two numbers of one sign have a sum of the other sign.
        if (((held ^ sum) & (value.value ^ sum))[31:31] == 1) {
            lane_stats.count(LaneEvent.OVERFLOW);
        }
        if (meta.counted & lane != 0) {
            lane_stats.count(LaneEvent.HIT);
            pushes.count((bit<32>)slot);
        }
    }

    action pull() {
        bit<32> held;
        values.read(held, (bit<32>)slot);
        value.setValid();
        value.value = held;
        if (meta.counted & lane != 0) {
            lane_stats.count(LaneEvent.HIT);
        }
    }

    action miss_push() {
        if (meta.counted & lane != 0) {
            lane_stats.count(LaneEvent.MISS);
        }
    }

    action miss_pull() {
        value.setValid();
        value.value = 0;
        if (meta.counted & lane != 0) {
            lane_stats.count(LaneEvent.MISS);
        }
    }

    apply {
        if (meta.served & lane != 0) {
            if (op == Op.PUSH) {
                push();
            } else {
                pull();
            }
        } else if (op == Op.PUSH) {
            miss_push();
        } else {
            miss_pull();
        }
    }
}
