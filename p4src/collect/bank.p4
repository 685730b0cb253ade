// Each bank has registers and counters for four values of a row, or for the value of a row of dim 1. A packet uses a
// bank once, by its Value or by its Quad, and in it one of two sets of registers: copies of the values that the server
// has published, and sums of the gradients that the server has not collected yet. Values are opaque: the bits of the
// server's float32. Gradients are 32-bit fixed point that wraps.
//
// A worker pulls the copy, and pushes to the sum. A server (a privileged caller) pulls the sum, pushes what it has
// collected, negated, and sets the copy. The first bank of a row counts what happened to the row.

// Accesses the value of a row of dim 1.
control Value(inout metadata_t meta, inout word_t word, in bit<16> slot, in Op op)
             (register<bit<32>> published, register<bit<32>> pending, counter row_stats, counter pushes,
              bitmap_t bank) {
    action publish() {
        published.write((bit<32>)slot, word.value);
    }

    action push(in bool is_counted) {
        bit<32> held;
        pending.read(held, (bit<32>)slot);
        bit<32> sum = held + word.value;
        pending.write((bit<32>)slot, sum);
        // Two numbers of one sign have a sum of the other sign. A server's subtraction cannot overflow.
        bit<32> overflow = (held ^ sum) & (word.value ^ sum);
        if (!meta.is_privileged && overflow[31:31] == 1) {
            row_stats.count(LaneEvent.OVERFLOW);
        }
        if (is_counted) {
            row_stats.count(LaneEvent.HIT);
            pushes.count((bit<32>)slot);
        }
    }

    action pull_pending() {
        word.setValid();
        pending.read(word.value, (bit<32>)slot);
    }

    action pull(in bool is_counted) {
        word.setValid();
        published.read(word.value, (bit<32>)slot);
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
                if (meta.is_of_words) {
                    publish();
                } else {
                    push(is_counted);
                }
            } else if (meta.is_privileged) {
                pull_pending();
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

// Accesses four values of a longer row.
control Quad(inout metadata_t meta, inout quad_t quad, in bit<16> slot, in Op op)
            (register<bit<32>> published_a, register<bit<32>> published_b, register<bit<32>> published_c,
             register<bit<32>> published_d, register<bit<32>> pending_a, register<bit<32>> pending_b,
             register<bit<32>> pending_c, register<bit<32>> pending_d, counter row_stats, counter pushes,
             bitmap_t bank) {
    action publish() {
        published_a.write((bit<32>)slot, quad.a);
        published_b.write((bit<32>)slot, quad.b);
        published_c.write((bit<32>)slot, quad.c);
        published_d.write((bit<32>)slot, quad.d);
    }

    action push(in bool is_counted) {
        bit<32> held_a;
        bit<32> held_b;
        bit<32> held_c;
        bit<32> held_d;
        pending_a.read(held_a, (bit<32>)slot);
        pending_b.read(held_b, (bit<32>)slot);
        pending_c.read(held_c, (bit<32>)slot);
        pending_d.read(held_d, (bit<32>)slot);
        bit<32> sum_a = held_a + quad.a;
        bit<32> sum_b = held_b + quad.b;
        bit<32> sum_c = held_c + quad.c;
        bit<32> sum_d = held_d + quad.d;
        pending_a.write((bit<32>)slot, sum_a);
        pending_b.write((bit<32>)slot, sum_b);
        pending_c.write((bit<32>)slot, sum_c);
        pending_d.write((bit<32>)slot, sum_d);
        bit<32> overflow = ((held_a ^ sum_a) & (quad.a ^ sum_a)) | ((held_b ^ sum_b) & (quad.b ^ sum_b))
                         | ((held_c ^ sum_c) & (quad.c ^ sum_c)) | ((held_d ^ sum_d) & (quad.d ^ sum_d));
        if (!meta.is_privileged && overflow[31:31] == 1) {
            row_stats.count(LaneEvent.OVERFLOW);
        }
        if (is_counted) {
            row_stats.count(LaneEvent.HIT);
            pushes.count((bit<32>)slot);
        }
    }

    action pull_pending() {
        quad.setValid();
        pending_a.read(quad.a, (bit<32>)slot);
        pending_b.read(quad.b, (bit<32>)slot);
        pending_c.read(quad.c, (bit<32>)slot);
        pending_d.read(quad.d, (bit<32>)slot);
    }

    action pull(in bool is_counted) {
        quad.setValid();
        published_a.read(quad.a, (bit<32>)slot);
        published_b.read(quad.b, (bit<32>)slot);
        published_c.read(quad.c, (bit<32>)slot);
        published_d.read(quad.d, (bit<32>)slot);
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
                if (meta.is_of_words) {
                    publish();
                } else {
                    push(is_counted);
                }
            } else if (meta.is_privileged) {
                pull_pending();
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
