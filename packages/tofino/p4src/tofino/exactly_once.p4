// Tells new RPCs from duplicates, as hotset/exactly_once.p4 does. A cell of 96 bits is too wide for a stateful ALU,
// which has two words: epoch and turn are a pair in one register, the bitmap is in another, a stage later. The second
// is reached only if the first has said that the RPC is new, or a duplicate.
struct last_rpc_t {
    bit<32> epoch;
    bit<32> turn;
}

const bit<32> CELLS = CALLERS << WINDOW_BITS;

control ExactlyOnce(inout headers_t hdr, inout metadata_t meta) {
    PAIR_REGISTER(last_rpc_t, cells, CELLS)
    WORD_REGISTER(bitmap_t, bitmaps, CELLS)

    // Both give the turn before this packet, 0 if it was one of another epoch. An ALU compares twice, so the
    // first turn, which may follow another epoch's, has an action of its own.
    BEGIN_PAIR_ACTION(last_rpc_t, first_turn, cells, bit<32>)
        if (cell.epoch == hdr.rpc.epoch) {
            result = cell.turn;
        } else {
            result = 0;
        }
        if (cell.epoch != hdr.rpc.epoch || cell.turn == 0) {
            cell.epoch = hdr.rpc.epoch;
            cell.turn = 1;
        }
    END_PAIR_ACTION(epoch, turn, cells)
    BEGIN_PAIR_ACTION(last_rpc_t, later_turn, cells, bit<32>)
        if (cell.epoch == hdr.rpc.epoch) {
            result = cell.turn;
        } else {
            result = 0;
        }
        if (cell.epoch == hdr.rpc.epoch && cell.turn == meta.previous_turn) {
            cell.turn = cell.turn + 1;
        }
    END_PAIR_ACTION(epoch, turn, cells)
    BEGIN_WORD_ACTION(bitmap_t, store_bitmap, bitmaps)
        cell = meta.served;
        result = cell;
    END_WORD_ACTION(bitmaps)
    BEGIN_WORD_ACTION(bitmap_t, read_bitmap, bitmaps)
        result = cell;
    END_WORD_ACTION(bitmaps)

    action compare() {
        meta.ahead = meta.turn - meta.last_turn;
    }

    apply {
        if (meta.kind == PacketKind.REQUEST) {
            if (meta.turn == 1) {
                EXECUTE(meta.last_turn, first_turn, (bit<32>)meta.cell);
            } else {
                EXECUTE(meta.last_turn, later_turn, (bit<32>)meta.cell);
            }
            compare();
            if (meta.ahead == 1) {
                meta.verdict = Turn.NEW;
                EXECUTE(meta.served, store_bitmap, (bit<32>)meta.cell);
            } else if (meta.turn == 0) {
                drop(meta, DropReason.STALE_TURN);
            } else if (meta.ahead == 0) {
                meta.verdict = Turn.DUPLICATE;
                // With the current hits, a lane that has become cold or hot since the first copy would be added again.
                if (hdr.rpc.op == Op.PUSH && meta.is_relayed == 0) {
                    EXECUTE(meta.served, read_bitmap, (bit<32>)meta.cell);
                }
            } else if (meta.ahead[31:31] == 1) {
                drop(meta, DropReason.STALE_TURN);
            } else {
                drop(meta, DropReason.AHEAD_TURN);
            }
        }
    }
}
