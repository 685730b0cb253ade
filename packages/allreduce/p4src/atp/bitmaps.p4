// Records which workers' packets a cell has.
control Bitmaps(in headers_t hdr, inout metadata_t meta) {
    register<workers_t>(CELLS) bitmaps;

    apply {
        bitmaps.read(meta.seen_before, meta.index);
        if (meta.is_new_tensor) {
            meta.seen_before = 0;
        }
        workers_t seen = meta.seen_before | hdr.atp.bitmap;
        if (hdr.atp.is_ack == 1 || hdr.atp.is_resent == 1) {
            seen = 0;       // freed
        }
        bitmaps.write(meta.index, seen);
        meta.is_fresh = hdr.atp.bitmap & ~meta.seen_before != 0;
    }
}
