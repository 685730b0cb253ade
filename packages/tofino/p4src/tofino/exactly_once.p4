// Tells new RPCs from duplicates, as hotset/exactly_once.p4 does. A cell of 96 bits is too wide for a stateful ALU,
// which has two words: epoch and turn are a pair in one register, the bitmap is in another, a stage later. The second
// is reached only if the first has said that the RPC is new, or a duplicate.
struct last_rpc_t {
    bit<32> epoch;
    bit<32> turn;
}

const bit<32> CELLS = ROWS << (WINDOW_BITS + PASSES_BITS);

#ifdef TWO_PASSES
#define IS_NEW meta.ahead == 1 || (meta.is_second == 1 && meta.ahead != 0 && meta.ahead[31:31] == 0)
#else
#define IS_NEW meta.ahead == 1
#endif

control ExactlyOnce(inout headers_t hdr, inout metadata_t meta) {
    PAIR_REGISTER(last_rpc_t, cells, CELLS)
    WORD_REGISTER(lanes_t, bitmaps, CELLS)

    // Both give the turn before this packet, 0 if it was one of another epoch. An ALU compares twice, so the
    // first turn, which may follow another epoch's, has an action of its own.
    PAIR_ACTION(last_rpc_t, epoch, turn, first_turn, cells, bit<32>,
        if (cell.epoch == hdr.rpc.epoch) {
            result = cell.turn;
        } else {
            result = 0;
        }
        if (cell.epoch != hdr.rpc.epoch || cell.turn == 0) {
            cell.epoch = hdr.rpc.epoch;
            cell.turn = 1;
        }
    )
    PAIR_ACTION(last_rpc_t, epoch, turn, later_turn, cells, bit<32>,
        if (cell.epoch == hdr.rpc.epoch) {
            result = cell.turn;
        } else {
            result = 0;
        }
        if (cell.epoch == hdr.rpc.epoch && cell.turn == meta.previous_turn) {
            cell.turn = cell.turn + 1;
        }
    )
#ifdef TWO_PASSES
    // RPCs of 16 lanes or less do not come here, so turns have gaps. The first pass has found that this turn is the
    // slot's last one, or was until another packet came in between. A register reads two fields of the packet at most.
    PAIR_ACTION(last_rpc_t, epoch, turn, second_pass, cells, bit<32>,
        if (cell.epoch == hdr.rpc.epoch) {
            result = cell.turn;
        } else {
            result = 0;
        }
        if (cell.epoch != hdr.rpc.epoch || cell.turn <= meta.previous_turn) {
            cell.epoch = hdr.rpc.epoch;
            cell.turn = meta.previous_turn + 1;
        }
    )
#endif
    WORD_ACTION(lanes_t, store_bitmap, bitmaps,
        cell = meta.served;
        result = cell;
    )
    WORD_ACTION(lanes_t, read_bitmap, bitmaps,
        result = cell;
    )

    action drop(DropReason reason) {
        meta.kind = PacketKind.DROPPED;
        meta.drop_reason = reason;
    }

    action compare() {
        meta.ahead = meta.turn - meta.last_turn;
    }

    apply {
        if (meta.kind == PacketKind.REQUEST) {
#ifdef TWO_PASSES
            if (meta.is_second == 1) {
                EXECUTE(meta.last_turn, second_pass, (bit<32>)meta.cell);
            } else
#endif
            if (meta.turn == 1) {
                EXECUTE(meta.last_turn, first_turn, (bit<32>)meta.cell);
            } else {
                EXECUTE(meta.last_turn, later_turn, (bit<32>)meta.cell);
            }
            compare();
            if (IS_NEW) {
                meta.verdict = Turn.NEW;
                EXECUTE(meta.served, store_bitmap, (bit<32>)meta.cell);
            } else if (meta.turn == 0) {
                drop(DropReason.STALE_TURN);
            } else if (meta.ahead == 0) {
                meta.verdict = Turn.DUPLICATE;
                // With the current hits, a lane that has become cold or hot since the first copy would be added again.
                if (hdr.rpc.op == Op.PUSH) {
                    EXECUTE(meta.served, read_bitmap, (bit<32>)meta.cell);
                }
            } else if (meta.ahead[31:31] == 1) {
                drop(DropReason.STALE_TURN);
            } else {
                drop(DropReason.AHEAD_TURN);
            }
        }
    }
}
