// One value of a packet. The first packet of a chunk writes it, the packets of other workers add to it, and a
// retransmission only reads the sum. Sums wrap.
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
        if (meta.seen_before == 0) {
            first();
        } else if (!meta.is_retransmit) {
            add();
        } else {
            read();
        }
    }
}
