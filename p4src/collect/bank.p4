// Accesses one of a bank's two sets of registers, once per packet: copies of the values that the server has published,
// and sums of the gradients that the server has not collected yet. Values are opaque: the bits of the server's float32.
// Gradients are 32-bit fixed point that wraps.
//
// A worker pulls the copy, and pushes to the sum. A server (a privileged caller) pulls the sum, pushes what it has
// collected, negated, and sets the copy. The first bank of a row counts what happened to the row.
control Bank(inout metadata_t meta, inout word_t word, inout quad_t quad, in bit<16> slot, in Op op)
            (bitmap_t bank) {
    register<bit<32>>(SLOTS) published_a;
    register<bit<32>>(SLOTS) published_b;
    register<bit<32>>(SLOTS) published_c;
    register<bit<32>>(SLOTS) published_d;
    register<bit<32>>(SLOTS) pending_a;
    register<bit<32>>(SLOTS) pending_b;
    register<bit<32>>(SLOTS) pending_c;
    register<bit<32>>(SLOTS) pending_d;
    counter(LANE_EVENTS, CounterType.packets) row_stats;
    counter(SLOTS, CounterType.packets) pushes;     // by slot, as a parameter server counts updates by key
    bit<32> a = 0;
    bit<32> b = 0;
    bit<32> c = 0;
    bit<32> d = 0;

    action publish() {
        published_a.write((bit<32>)slot, a);
        published_b.write((bit<32>)slot, b);
        published_c.write((bit<32>)slot, c);
        published_d.write((bit<32>)slot, d);
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
        bit<32> sum_a = held_a + a;
        bit<32> sum_b = held_b + b;
        bit<32> sum_c = held_c + c;
        bit<32> sum_d = held_d + d;
        pending_a.write((bit<32>)slot, sum_a);
        pending_b.write((bit<32>)slot, sum_b);
        pending_c.write((bit<32>)slot, sum_c);
        pending_d.write((bit<32>)slot, sum_d);
        // Two numbers of one sign have a sum of the other sign. A server's subtraction cannot overflow.
        bit<32> overflow = ((held_a ^ sum_a) & (a ^ sum_a)) | ((held_b ^ sum_b) & (b ^ sum_b))
                         | ((held_c ^ sum_c) & (c ^ sum_c)) | ((held_d ^ sum_d) & (d ^ sum_d));
        if (!meta.is_privileged && overflow[31:31] == 1) {
            row_stats.count(LaneEvent.OVERFLOW);
        }
        if (is_counted) {
            row_stats.count(LaneEvent.HIT);
            pushes.count((bit<32>)slot);
        }
    }

    action pull_pending() {
        pending_a.read(a, (bit<32>)slot);
        pending_b.read(b, (bit<32>)slot);
        pending_c.read(c, (bit<32>)slot);
        pending_d.read(d, (bit<32>)slot);
    }

    action pull(in bool is_counted) {
        published_a.read(a, (bit<32>)slot);
        published_b.read(b, (bit<32>)slot);
        published_c.read(c, (bit<32>)slot);
        published_d.read(d, (bit<32>)slot);
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
                    a = word.value;
                } else {
                    a = quad.a;
                    b = quad.b;
                    c = quad.c;
                    d = quad.d;
                }
                if (meta.is_of_words) {
                    publish();
                } else {
                    push(is_counted);
                }
            }
        } else {
            if (slot < SLOTS) {
                if (meta.is_privileged) {
                    pull_pending();
                } else {
                    pull(is_counted);
                }
            }
            if (meta.is_scalar) {
                word.setValid();
                word.value = a;
            } else {
                quad.setValid();
                quad.a = a;
                quad.b = b;
                quad.c = c;
                quad.d = d;
            }
        }
    }
}
