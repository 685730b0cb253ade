// Not part of SwitchML: the cut bits of design `exact`. They are ORed over the workers of a chunk.
control CutBits(inout bit<32> bits, in metadata_t meta) {
    register<bit<32>>(POOL) cut;

    apply {
        bit<32> held = 0;
        if (meta.seen_before != 0) {
            cut.read(held, meta.index);
        }
        if (meta.is_retransmit) {
            bits = held;
        } else {
            bits = bits | held;
        }
        cut.write(meta.index, bits);
    }
}
