// Accesses one of a lane's two registers, once per packet: copies of the values that the server has published, and sums
// of the gradients that the server has not collected yet. Values are opaque: the bits of the server's float32.
// Gradients are 32-bit fixed point that wraps.
//
// A worker pulls the copy, and pushes to the sum. A server (a privileged caller) pulls the sum, pushes what it has
// collected, negated, and sets the copy.
control LaneAggregate(in metadata_t meta, inout value_t value, in bit<16> slot, in Op op)
                     (bitmap_t lane) {
    register<bit<32>>(SLOTS) published;
    register<bit<32>>(SLOTS) pending;
    counter(LANE_EVENTS, CounterType.packets) lane_stats;
    counter(SLOTS, CounterType.packets) pushes;     // by slot, as a parameter server counts updates by key

    action publish() {
        published.write((bit<32>)slot, value.value);
    }

    action push() {
        bit<32> held;
        pending.read(held, (bit<32>)slot);
        bit<32> sum = held + value.value;
        pending.write((bit<32>)slot, sum);
        // Two numbers of one sign have a sum of the other sign. A server's subtraction cannot overflow.
        if (!meta.is_privileged && ((held ^ sum) & (value.value ^ sum))[31:31] == 1) {
            lane_stats.count(LaneEvent.OVERFLOW);
        }
        if (meta.counted & lane != 0) {
            lane_stats.count(LaneEvent.HIT);
            pushes.count((bit<32>)slot);
        }
    }

    action pull_pending() {
        value.setValid();
        pending.read(value.value, (bit<32>)slot);
    }

    action pull() {
        value.setValid();
        published.read(value.value, (bit<32>)slot);
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
                if (meta.is_of_words) {
                    publish();
                } else {
                    push();
                }
            } else if (meta.is_privileged) {
                pull_pending();
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
