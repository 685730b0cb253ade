// Not part of SwitchML, and off unless `filter_stale` is set. A pool entry keeps the number of its chunk, from 1 on.
// A packet of an older chunk is dropped. The first packet of a newer chunk restarts the entry, whatever its bitmap and
// its count say. Numbers wrap: a newer chunk is ahead by less than 2^31.
control StaleChunkFilter(in headers_t hdr, inout metadata_t meta) {
    register<bit<32>>(POOL) numbers;

    apply {
        meta.is_new_chunk = false;
        if (meta.filter_stale == 1) {
            bit<32> number;
            numbers.read(number, meta.index);
            bit<32> ahead = hdr.switchml.chunk + 1 - number;
            if (ahead >= 0x80000000) {
                drop(meta, DropReason.STALE_CHUNK);
            } else {
                meta.is_new_chunk = ahead != 0;
                numbers.write(meta.index, hdr.switchml.chunk + 1);
            }
        }
    }
}
