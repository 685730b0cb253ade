// Each bank has registers and counters for four values of a row, or for the value of a row of dim 1. A packet uses a
// bank once, by its Value or by its Quad. Values are 32-bit fixed point that wraps: sums are exact, independent of the
// order, and can be undone. The first bank of a row counts what happened to the row.

// Adds to or reads the value of a row of dim 1.
control Value(inout metadata_t meta, inout word_t word, in bit<16> slot, in Op op)
             (register<bit<32>> values, counter row_stats, counter pushes, bitmap_t bank) {
    action push(in bool is_counted) {
        bit<32> held;
        values.read(held, (bit<32>)slot);
        bit<32> sum = held + word.value;
        values.write((bit<32>)slot, sum);
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

    action pull(in bool is_counted) {
        word.setValid();
        values.read(word.value, (bit<32>)slot);
        if (is_counted) {
            row_stats.count(LaneEvent.HIT);
        }
    }

    action pull_0() {
        word.setValid();
        word.value = 0;
    }

    apply {
        bool is_counted = meta.counting & bank != 0;
        if (meta.hits & bank != 0) {
            if (op == Op.PUSH) {
                push(is_counted);
            } else {
                pull(is_counted);
            }
        } else {
            if (op != Op.PUSH) {
                pull_0();
            }
            if (is_counted) {
                row_stats.count(LaneEvent.MISS);
            }
        }
    }
}

// Adds to or reads four values of a longer row.
control Quad(inout metadata_t meta, inout quad_t quad, in bit<16> slot, in Op op)
            (register<bit<32>> values_a, register<bit<32>> values_b, register<bit<32>> values_c,
             register<bit<32>> values_d, counter row_stats, counter pushes, bitmap_t bank) {
    action push(in bool is_counted) {
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

    action pull(in bool is_counted) {
        quad.setValid();
        values_a.read(quad.a, (bit<32>)slot);
        values_b.read(quad.b, (bit<32>)slot);
        values_c.read(quad.c, (bit<32>)slot);
        values_d.read(quad.d, (bit<32>)slot);
        if (is_counted) {
            row_stats.count(LaneEvent.HIT);
        }
    }

    action pull_0() {
        quad.setValid();
        quad.a = 0;
        quad.b = 0;
        quad.c = 0;
        quad.d = 0;
    }

    apply {
        bool is_counted = meta.counting & bank != 0;
        if (slot < SLOTS) {
            if (op == Op.PUSH) {
                push(is_counted);
            } else {
                pull(is_counted);
            }
        } else {
            if (op != Op.PUSH) {
                pull_0();
            }
            if (slot == MISS && is_counted) {
                row_stats.count(LaneEvent.MISS);
            }
        }
    }
}
