// Counts the packets of a cell. The cell is complete when it has one packet of each child: a worker, or a switch of the
// first level.
control Count(in headers_t hdr, inout metadata_t meta) {
    register<bit<8>>(CELLS) counts;

    apply {
        bit<8> count;
        counts.read(count, meta.index);
        if (meta.is_new_tensor) {
            count = 0;
        }
        if (hdr.atp.is_ack == 1 || hdr.atp.is_resent == 1) {
            count = 0;  // freed
            meta.is_complete = true;
        } else {
            if (meta.is_fresh) {
                count = count + 1;
            }
            meta.is_complete = count == meta.children;
        }
        counts.write(meta.index, count);
    }
}
