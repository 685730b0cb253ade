// How many workers are missing: from their number down to 0, and again. What comes again does not count.
control Count(inout metadata_t meta) {
    register<bit<8>>(POOL) missing;

    apply {
        bit<8> left;
        missing.read(left, meta.index);
        if (meta.is_new_chunk) {
            left = 0;
        }
        meta.missing = left;
        // With the check this is no new turn: the entry was completed without this worker, which has no part in it any more.
        if (meta.check == 1 && meta.again == 0 && meta.before != 0 && left == 0) {
            meta.again = meta.worker;
        }
        meta.gives_up = meta.is_overdue && meta.again != 0 && left != 0;
        if (meta.gives_up) {
            left = 0;
        } else if (meta.again == 0) {
            if (left == 0) {
                left = meta.workers;
            }
            left = left - 1;
        }
        missing.write(meta.index, left);
        // A job of one worker has no count: what is new is the last.
        if (meta.workers == 1) {
            meta.missing = 0;
            if (meta.again == 0) {
                meta.missing = 1;
            }
        }
    }
}
