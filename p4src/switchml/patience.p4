// Ours, and off unless a job's entries have a `patience`: when an entry has waited for so long since its first packet came,
// what comes again completes it for everybody (count.p4).
control Patience(inout metadata_t meta, in bit<48> now) {
    register<bit<32>>(POOL) since;      // us, when the first came

    apply {
        meta.is_overdue = false;
        if (meta.patience != 0) {
            bit<32> first;
            since.read(first, meta.index);
            if (meta.before == 0) {
                first = now[31:0];
            }
            since.write(meta.index, first);
            meta.is_overdue = now[31:0] - first >= meta.patience;
        }
    }
}
