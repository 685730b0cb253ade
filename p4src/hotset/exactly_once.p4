// A push is not idempotent and UDP loses, duplicates and reorders. One cell for each caller and slot of its
// window holds epoch, turn and the lanes served; a caller reuses a slot only after its RPC was answered.
control ExactlyOnce(inout headers_t hdr, inout metadata_t meta, out drop_reason_t reason) {
    register<bit<(64 + LANES)>>(CELLS) cells;

    apply {
        bit<32> index = ((bit<32>)meta.row << WINDOW_BITS) | (bit<32>)hdr.rpc.seq[WINDOW_BITS - 1:0];
        bit<32> turn = hdr.rpc.seq >> WINDOW_BITS;
        bit<(64 + LANES)> cell;
        cells.read(cell, index);

        bit<32> last = 0;
        if (cell[63 + LANES:32 + LANES] == hdr.rpc.epoch) {
            last = cell[31 + LANES:LANES];
        }
        reason = DROP_STALE_TURN;
        meta.served = meta.hits;
        if (turn == last + 1) {
            cells.write(index, hdr.rpc.epoch ++ turn ++ meta.hits);
        } else if (turn == 0 || turn < last) {
            meta.dropped = true;
        } else if (turn > last) {
            meta.dropped = true;
            reason = DROP_AHEAD_TURN;
        } else {
            meta.is_duplicate = true;
            // Today's hits would add again a lane that was hot then and is cold now, or the reverse.
            if (hdr.rpc.op == OP_PUSH) {
                meta.served = cell[LANES - 1:0];
            }
        }
    }
}
