// One lane's values, touched once a packet. 32-bit fixed point that wraps: exact, order-free, invertible.
//
// Conditions choose the action, as a gateway does; the action has none, as a stateful ALU would have it (p4c makes jumps
// of every `?:` in an action, and BMv2 pays for each). What is not to be counted is counted in the cell nobody reads.
control LaneAggregate(in metadata_t meta, inout value_t value, in bit<16> slot, in bit<8> op)
                     (bit<8> lane) {
    register<bit<32>>(SLOTS) values;
    counter(LANE_EVENTS, CounterType.packets) lane_stats;
    counter(SLOTS, CounterType.packets) pushes;     // by slot, as a PS counts updates by key

    bit<32> held;
    bit<32> uncounted;

    // All ones where the lane is not to be counted: any event | these is LANE_UNCOUNTED, and any slot is no cell.
    action count_lane(in bit<32> event) {
        uncounted = (bit<32>)(meta.counted >> lane & 1) - 1;
        lane_stats.count((event | uncounted) & LANE_UNCOUNTED);
    }

    action push() {
        values.read(held, (bit<32>)slot);
        bit<32> sum = held + value.value;
        values.write((bit<32>)slot, sum);
        bit<32> overflow = ((held ^ sum) & (value.value ^ sum)) >> 31;
        lane_stats.count(LANE_OVERFLOW | (overflow ^ 1));
        count_lane(LANE_HIT);
        pushes.count((bit<32>)slot | uncounted);
    }

    action pull() {
        values.read(held, (bit<32>)slot);
        value.setValid();
        value.value = held;
        count_lane(LANE_HIT);
    }

    action push_missed() {
        count_lane(LANE_MISS);
    }

    action pull_missed() {
        value.setValid();
        value.value = 0;
        count_lane(LANE_MISS);
    }

    apply {
        if (meta.served >> lane & 1 == 1) {
            if (op == OP_PUSH) {
                push();
            } else {
                pull();
            }
        } else if (op == OP_PUSH) {
            push_missed();
        } else {
            pull_missed();
        }
    }
}
