// Tells new RPCs from duplicates. A push is not idempotent, and UDP loses, duplicates and reorders. A caller reuses a
// slot of its window only after the slot's RPC was answered, so one cell for each slot is enough.
const bit<32> CELLS = CALLERS << WINDOW_BITS;

struct last_rpc_t {
    bit<32>  epoch;
    bit<32>  turn;
    bitmap_t served;
}

control ExactlyOnce(inout headers_t hdr, inout metadata_t meta) {
    // A cell is a last_rpc_t: epoch ++ turn ++ served.
    register<bit<(64 + LANES)>>(CELLS) cells;

    apply {
        bit<32> index = ((bit<32>)meta.caller << WINDOW_BITS) | (bit<32>)hdr.rpc.seq[WINDOW_BITS - 1:0];
        bit<32> turn = hdr.rpc.seq >> WINDOW_BITS;
        bit<(64 + LANES)> cell;
        cells.read(cell, index);
        last_rpc_t last = { cell[63 + LANES:32 + LANES], cell[31 + LANES:LANES], cell[LANES - 1:0] };
        if (last.epoch != hdr.rpc.epoch) {
            last.turn = 0;
        }

        meta.served = meta.hits;
        if (turn == last.turn + 1) {
            cells.write(index, hdr.rpc.epoch ++ turn ++ meta.hits);
        } else if (turn > last.turn) {
            drop(meta, DropReason.AHEAD_TURN);
        } else if (turn < last.turn || turn == 0) {        // turns begin with 1
            drop(meta, DropReason.STALE_TURN);
        } else {
            meta.is_duplicate = true;
            // With the current hits, a lane that has become cold or hot since the first copy would be added again.
            if (hdr.rpc.op == Op.PUSH) {
                meta.served = last.served;
            }
        }
    }
}
