// The pipeline of one packet, for both architectures. Four values share a stage, since a stage has four stateful ALUs.

control Process(inout headers_t hdr, inout metadata_t meta, in bit<16> parser_error, in port_t ingress_port,
                inout port_t egress_port) {
    PACKET_COUNTER(drops, DROP_REASONS)
    PACKET_COUNTER(duplicates, 1)
    GATHERER(bit<CELL_BITS>, cell_of_turn)
    GATHERER(bitmap_t, hot_lanes)
    GATHERER(bitmap_t, moving_lanes)

    Validate() validate;
    Identify() identify;
    ExactlyOnce() exactly_once;
    Readdress() readdress;
    Forward() forward;
#define DECLARE_LOOKUP(nn, i) LaneLookup() lookup_##nn;
    EACH_LANE(DECLARE_LOOKUP)
#undef DECLARE_LOOKUP
#define DECLARE_AGGREGATE(nn, i) LaneAggregate() aggregate_##nn;
    EACH_LANE(DECLARE_AGGREGATE)
#undef DECLARE_AGGREGATE
#if DIM == 16
#define DECLARE_VALUE(nn, i) ValueAggregate() aggregate_##nn;
    EACH_LATER_VALUE(DECLARE_VALUE)
#undef DECLARE_VALUE
#endif

    action split_seq() {
        meta.turn = hdr.rpc.seq >> WINDOW_BITS;
    }

    action find_previous_turn() {
        meta.previous_turn = meta.turn - 1;
    }

    action do_work(Work work) {
        meta.work = work;
    }

    // Without offload only privileged callers reach the lanes.
    table works {
        key = {
            hdr.rpc.op: ternary @name("op");
            meta.offload: ternary @name("offload");
            meta.caller: ternary @name("caller");
            meta.is_relayed: ternary @name("is_relayed");
        }
        actions = { do_work; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 8;
        const entries = {
            (_, _, _, 1): do_work(Work.NOTHING);
            (Op.PUSH, _, CallerKind.PRIVILEGED, _): do_work(Work.PUSH);
            (Op.PUSH, 1, _, _): do_work(Work.COUNTED_PUSH);
            (Op.PULL, _, CallerKind.PRIVILEGED, _): do_work(Work.PULL);
            (Op.PULL, 1, _, _): do_work(Work.COUNTED_PULL);
        }
    }

    // An action takes 32 bits from the hash unit at most, so each of these is one.
    action find_cell() {
        GATHER(meta.cell, cell_of_turn, meta.caller_number[CALLER_BITS - 1:0] JOIN hdr.rpc.seq[WINDOW_BITS - 1:0]);
    }

    action gather_hot() {
        GATHER(meta.hot, hot_lanes, GATHERED(is_hot));
    }

    action gather_moving() {
        GATHER(meta.moving, moving_lanes, GATHERED(is_moving));
    }

    action serve_hot() {
        meta.served = meta.hot;
    }

    action serve_hot_and_moving() {
        meta.served = meta.hot | meta.moving;
    }

    action answer_it() {
        meta.is_answered = 1;
    }


    apply {
        split_seq();
        validate.apply(hdr, meta, parser_error);
#if DIM == 1
#define IS_LIVE(i) hdr.rpc.live[i:i] == 1
#else
#define IS_LIVE(i) hdr.keys[i].isValid()
#endif
#define APPLY_LOOKUP(nn, i) if (IS_LIVE(i)) { \
    lookup_##nn.apply(meta.lane_##nn, hdr.rpc.job, hdr.rpc.dim, hdr.keys[i].key); }
        EACH_LANE(APPLY_LOOKUP)
#undef APPLY_LOOKUP
        identify.apply(hdr, meta, ingress_port);
        find_previous_turn();
        works.apply();
        find_cell();
        gather_hot();
        gather_moving();
        if (meta.caller == CallerKind.PRIVILEGED) {
            serve_hot_and_moving();
        } else if (meta.offload == 1) {
            serve_hot();
        }

        exactly_once.apply(hdr, meta);
        if (hdr.rpc.op != Op.EMPTY && meta.is_relayed == 0) {
            if (meta.caller == CallerKind.PRIVILEGED) {
                answer_it();
            } else if (meta.served == hdr.rpc.live) {
                answer_it();
            }
        }
        if (meta.verdict == Turn.DUPLICATE) {
            COUNT(duplicates, 0);
        }
#define APPLY_AGGREGATE(nn, i) \
    aggregate_##nn.apply(meta, hdr.words[i], hdr.rpc.live[i:i], meta.served[i:i], meta.lane_##nn.slot);
        EACH_LANE(APPLY_AGGREGATE)
#undef APPLY_AGGREGATE
#if DIM == 16
#define APPLY_VALUE(nn, i) aggregate_##nn.apply(meta, hdr.words[i], meta.served[0:0], meta.lane_00.slot);
        EACH_LATER_VALUE(APPLY_VALUE)
#undef APPLY_VALUE
#endif

        if (meta.kind == PacketKind.PACKET_OUT) {
            egress_port = hdr.packet_out.egress_port;
        } else if (meta.kind == PacketKind.OTHER) {
            forward.apply(hdr, meta, egress_port);
        } else {
            readdress.apply(hdr, meta, egress_port);
        }
        if (meta.kind == PacketKind.DROPPED) {
            COUNT(drops, meta.drop_reason);
        }
    }
}
