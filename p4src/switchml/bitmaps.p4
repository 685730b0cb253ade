// Who has come: a bit for each worker in both sets of a slot, in one cell. A worker that comes to one set has the result of
// the other, so its bit is cleared there. With the check the other set is left alone: a new chunk clears it all.
control Bitmaps(in headers_t hdr, inout metadata_t meta) {
    register<bit<64>>(SLOTS) bitmaps;   // set 1, then set 0

    apply {
        bit<32> slot = (bit<32>)hdr.switchml.slot;
        bit<64> both;
        bitmaps.read(both, slot);
        workers_t others = meta.check == 1 ? (workers_t)0 : meta.worker;
        if (hdr.switchml.pool_set == 0) {
            meta.before = meta.is_new_chunk ? (workers_t)0 : both[31:0];
            both = (both[63:32] & ~others) ++ (meta.before | meta.worker);
        } else {
            meta.before = meta.is_new_chunk ? (workers_t)0 : both[63:32];
            both = (meta.before | meta.worker) ++ (both[31:0] & ~others);
        }
        bitmaps.write(slot, both);
        meta.again = meta.before & meta.worker;
    }
}
