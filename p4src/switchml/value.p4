// One of a packet's values: the first packet writes it, others add theirs, and what comes again only reads the sum, which
// wraps. Theirs are two to a register, one of which a second pass reads; here each has its own.
control Value(inout bit<32> value, in metadata_t meta) {
    register<bit<32>>(POOL) sums;

    action first() {
        sums.write(meta.index, value);
    }

    action add() {
        bit<32> held;
        sums.read(held, meta.index);
        value = held + value;
        sums.write(meta.index, value);
    }

    action read() {
        sums.read(value, meta.index);
    }

    apply {
        if (meta.before == 0) {
            first();
        } else if (meta.again == 0) {
            add();
        } else {
            read();
        }
    }
}
