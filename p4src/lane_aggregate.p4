// One lane's values, touched once a packet. 32-bit fixed point that wraps: exact, order-free, invertible.
//
// An action a lane and no branches, as a stateful ALU would have it (and BMv2 pays for every branch): a lane that
// does not add adds 0, and a lane that counts nothing counts in the cell that nobody reads.
control LaneAggregate(in metadata_t meta, inout value_t value, in bit<16> slot, in bit<8> op)
                     (bitmap_t lane) {
    register<bit<32>>(SLOTS) values;
    counter(LANE_EVENTS, CounterType.packets) lane_stats;

    bit<32> held;

    action count_lane() {
        lane_stats.count((meta.counted & lane) == 0 ? LANE_UNCOUNTED
                         : ((meta.served & lane) == 0 ? LANE_MISS : LANE_HIT));
    }

    action push() {
        values.read(held, (bit<32>)slot);
        bit<32> delta = (meta.served & lane) == 0 ? 0 : value.value;
        bit<32> sum = held + delta;
        values.write((bit<32>)slot, sum);
        bit<32> flipped = (held ^ sum) & (delta ^ sum);
        lane_stats.count(flipped[31:31] == 1 ? LANE_OVERFLOW : LANE_UNCOUNTED);
        count_lane();
    }

    action pull() {
        values.read(held, (bit<32>)slot);
        value.setValid();
        value.value = (meta.served & lane) == 0 ? 0 : held;
        count_lane();
    }

    apply {
        if (op == OP_PUSH) {
            push();
        } else {
            pull();
        }
    }
}
