// Not part of SwitchML, and off unless `slot_timeout` is set. When that much time has passed since the first packet of
// an entry, the next retransmission completes the entry for all workers (count.p4).
control SlotTimeout(inout metadata_t meta, in bit<48> now) {
    register<bit<32>>(POOL) since;      // us, when the first packet came

    apply {
        meta.is_overdue = false;
        if (meta.slot_timeout != 0) {
            bit<32> first;
            since.read(first, meta.index);
            if (meta.seen_before == 0) {
                first = now[31:0];
            }
            since.write(meta.index, first);
            meta.is_overdue = now[31:0] - first >= meta.slot_timeout;
        }
    }
}
