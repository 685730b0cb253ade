// The largest exponents of those who have come. An entry that is completed without somebody says of how many, in the second.
control Exponents(inout exponents_t exponents, in metadata_t meta) {
    register<bit<16>>(POOL) largest;

    apply {
        bit<16> held;
        largest.read(held, meta.index);
        bit<8> first = held[15:8];
        bit<8> second = held[7:0];
        // Signed: with the first bit turned, they compare as unsigned ones do.
        if (meta.before == 0 || (meta.again == 0 && (exponents.e0 ^ 0x80) > (first ^ 0x80))) {
            first = exponents.e0;
        }
        if (meta.before == 0 || (meta.again == 0 && (exponents.e1 ^ 0x80) > (second ^ 0x80))) {
            second = exponents.e1;
        }
        if (meta.gives_up) {
            second = meta.missing;
        }
        largest.write(meta.index, first ++ second);
        exponents.e0 = first;
        exponents.e1 = second;
    }
}
