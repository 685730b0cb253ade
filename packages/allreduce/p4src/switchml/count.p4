// Counts the workers whose packets have not come: from the number of workers down to 0, then from that number again.
// Retransmissions are not counted.
control Count(inout metadata_t meta) {
    register<bit<8>>(POOL) remaining;

    apply {
        bit<8> count;
        remaining.read(count, meta.index);
        if (meta.is_new_chunk) {
            count = 0;
        }
        meta.remaining = count;
        // With the filter, a complete entry stays complete until a new chunk: a timeout ended it without this worker.
        if (meta.filter_stale == 1 && meta.seen_before != 0 && count == 0) {
            meta.is_retransmit = true;
        }
        meta.timed_out = meta.is_overdue && meta.is_retransmit && count != 0;
        if (meta.timed_out) {
            count = 0;
        } else if (!meta.is_retransmit) {
            if (count == 0) {
                count = meta.worker_count;
            }
            count = count - 1;
        }
        remaining.write(meta.index, count);
        // A job of one worker has no count: a packet is the last of its chunk unless it is a retransmission.
        if (meta.worker_count == 1) {
            meta.remaining = 0;
            if (!meta.is_retransmit) {
                meta.remaining = 1;
            }
        }
    }
}
