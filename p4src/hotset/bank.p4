// Adds to or reads four values of a row, once per packet. Values are 32-bit fixed point that wraps: sums are exact,
// independent of the order, and can be undone. The first bank of a row counts what happened to the row.
control Bank(inout metadata_t meta, inout word_t word, inout quad_t quad, in bit<16> slot, in Op op)
            (bitmap_t bank) {
    register<bit<32>>(SLOTS) values_a;
    register<bit<32>>(SLOTS) values_b;
    register<bit<32>>(SLOTS) values_c;
    register<bit<32>>(SLOTS) values_d;
    counter(LANE_EVENTS, CounterType.packets) row_stats;
    counter(SLOTS, CounterType.packets) pushes;     // by slot, as a parameter server counts updates by key
    action push_value(in bool is_counted) {
        bit<32> held;
        values_a.read(held, (bit<32>)slot);
        bit<32> sum = held + word.value;
        values_a.write((bit<32>)slot, sum);
        // Two numbers of one sign have a sum of the other sign.
        bit<32> overflow = (held ^ sum) & (word.value ^ sum);
        if (overflow[31:31] == 1) {
            row_stats.count(LaneEvent.OVERFLOW);
        }
        if (is_counted) {
            row_stats.count(LaneEvent.HIT);
            pushes.count((bit<32>)slot);
        }
    }

    action push_quad(in bool is_counted) {
        bit<32> held_a;
        bit<32> held_b;
        bit<32> held_c;
        bit<32> held_d;
        values_a.read(held_a, (bit<32>)slot);
        values_b.read(held_b, (bit<32>)slot);
        values_c.read(held_c, (bit<32>)slot);
        values_d.read(held_d, (bit<32>)slot);
        bit<32> sum_a = held_a + quad.a;
        bit<32> sum_b = held_b + quad.b;
        bit<32> sum_c = held_c + quad.c;
        bit<32> sum_d = held_d + quad.d;
        values_a.write((bit<32>)slot, sum_a);
        values_b.write((bit<32>)slot, sum_b);
        values_c.write((bit<32>)slot, sum_c);
        values_d.write((bit<32>)slot, sum_d);
        bit<32> overflow = ((held_a ^ sum_a) & (quad.a ^ sum_a)) | ((held_b ^ sum_b) & (quad.b ^ sum_b))
                         | ((held_c ^ sum_c) & (quad.c ^ sum_c)) | ((held_d ^ sum_d) & (quad.d ^ sum_d));
        if (overflow[31:31] == 1) {
            row_stats.count(LaneEvent.OVERFLOW);
        }
        if (is_counted) {
            row_stats.count(LaneEvent.HIT);
            pushes.count((bit<32>)slot);
        }
    }

    action pull_value(in bool is_counted) {
        values_a.read(word.value, (bit<32>)slot);
        if (is_counted) {
            row_stats.count(LaneEvent.HIT);
        }
    }

    action pull_quad(in bool is_counted) {
        values_a.read(quad.a, (bit<32>)slot);
        values_b.read(quad.b, (bit<32>)slot);
        values_c.read(quad.c, (bit<32>)slot);
        values_d.read(quad.d, (bit<32>)slot);
        if (is_counted) {
            row_stats.count(LaneEvent.HIT);
        }
    }

    action miss() {
        row_stats.count(LaneEvent.MISS);
    }

    apply {
        bool is_counted = meta.counting & bank != 0;
        if (slot == MISS && is_counted) {
            miss();
        }
        if (op == Op.PUSH) {
            if (slot < SLOTS) {
                if (meta.is_scalar) {
                    push_value(is_counted);
                } else {
                    push_quad(is_counted);
                }
            }
        } else if (meta.is_scalar) {
            word.setValid();
            word.value = 0;
            if (slot < SLOTS) {
                pull_value(is_counted);
            }
        } else {
            quad.setValid();
            quad.a = 0;
            quad.b = 0;
            quad.c = 0;
            quad.d = 0;
            if (slot < SLOTS) {
                pull_quad(is_counted);
            }
        }
    }
}
