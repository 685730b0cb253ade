// Keeps the largest exponents of a chunk. In an entry that timed out, the second one is the number of workers missing.
control Exponents(inout exponents_t exponents, in metadata_t meta) {
    register<bit<16>>(POOL) largest;

    apply {
        bit<16> held;
        largest.read(held, meta.index);
        bit<8> first = held[15:8];
        bit<8> second = held[7:0];
        // Signed numbers compare as unsigned ones do once their first bit is inverted.
        if (meta.seen_before == 0 || (!meta.is_retransmit && (exponents.e0 ^ 0x80) > (first ^ 0x80))) {
            first = exponents.e0;
        }
        if (meta.seen_before == 0 || (!meta.is_retransmit && (exponents.e1 ^ 0x80) > (second ^ 0x80))) {
            second = exponents.e1;
        }
        if (meta.timed_out) {
            second = meta.remaining;
        }
        largest.write(meta.index, first ++ second);
        exponents.e0 = first;
        exponents.e1 = second;
    }
}
