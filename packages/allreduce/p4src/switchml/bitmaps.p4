// Records which workers' packets have come. A cell has a bit for each worker in both sets of a slot. A worker that
// sends to one set has the result of the other set, so its bit there is cleared. With the stale-chunk filter the other
// set is not changed, because a new chunk clears all of its bits.
control Bitmaps(in headers_t hdr, inout metadata_t meta) {
    register<bit<64>>(SLOTS) bitmaps;   // set 1 ++ set 0

    apply {
        bit<32> slot = (bit<32>)hdr.switchml.slot;
        bit<64> both;
        bitmaps.read(both, slot);
        workers_t cleared = meta.filter_stale == 1 ? (workers_t)0 : meta.worker;
        if (hdr.switchml.pool_set == 0) {
            meta.seen_before = meta.is_new_chunk ? (workers_t)0 : both[31:0];
            both = (both[63:32] & ~cleared) ++ (meta.seen_before | meta.worker);
        } else {
            meta.seen_before = meta.is_new_chunk ? (workers_t)0 : both[63:32];
            both = (meta.seen_before | meta.worker) ++ (both[31:0] & ~cleared);
        }
        bitmaps.write(slot, both);
        meta.is_retransmit = meta.seen_before & meta.worker != 0;
    }
}
