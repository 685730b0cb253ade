// Ours, and off unless a job's entries say `check`: an entry of the pool knows the number of its chunk, from 1 on. A late
// copy is of a smaller one. The first of a larger one begins the entry anew, whatever its bitmap and count say.
control Chunks(in headers_t hdr, inout metadata_t meta, out drop_reason_t reason) {
    register<bit<32>>(POOL) numbers;

    apply {
        reason = DROP_LATE;
        meta.is_new_chunk = false;
        if (meta.check == 1) {
            bit<32> number;
            numbers.read(number, meta.index);
            bit<32> ahead = hdr.switchml.chunk + 1 - number;
            if (ahead >= 0x80000000) {
                meta.dropped = true;
            } else {
                meta.is_new_chunk = ahead != 0;
                numbers.write(meta.index, hdr.switchml.chunk + 1);
            }
        }
    }
}
