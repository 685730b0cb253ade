// One value of a packet. Sums are signed and saturate; a sum of +-(2^31 - 1) or -2^31 stays, as in the published code.
control Value(inout bit<32> value, in metadata_t meta) {
    register<bit<32>>(CELLS) sums;

    apply {
        if (meta.operation == Operation.WRITE) {
            sums.write(meta.index, value);
        } else if (meta.operation == Operation.ADD) {
            bit<32> held;
            sums.read(held, meta.index);
            if (held == 0x7fffffff || held == 0x80000000 || held == 0x80000001) {
                value = held;
            } else {
                value = (bit<32>)((int<32>)held |+| (int<32>)value);
            }
            sums.write(meta.index, value);
        } else if (meta.operation == Operation.READ) {
            sums.read(value, meta.index);
        }
    }
}
