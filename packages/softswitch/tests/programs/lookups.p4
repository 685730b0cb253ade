// Keys that are expressions, validity bits, signed and wide fields; constant entries of every kind; tables without
// key or default action; actions that exit; hits, misses and what ran, nested.
#include <core.p4>
#include <v1model.p4>

header probe_t {
    bit<8>  kind;
    bit<8>  value;
    int<16> signed;
    bit<16> flags;
    bit<16> path;
    bit<16> result;
}

header option_t {
    bit<128> address;
}


struct headers_t {
    probe_t     probe;
    option_t    option;
    option_t[2] more;
}

struct metadata_t {
    bool    is_odd;
    bit<16> class;
}

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.probe);
        transition select(hdr.probe.kind[1:0]) {
            1: option;
            2: more;
            default: accept;
        }
    }

    state option {
        packet.extract(hdr.option);
        transition more;
    }

    state more {
        packet.extract(hdr.more.next);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }

control Find(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    direct_counter(CounterType.packets_and_bytes) by_validity;
    direct_counter(CounterType.packets_and_bytes) by_class;
    direct_counter(CounterType.bytes) by_prefix;

    action add(bit<16> value) { hdr.probe.result = hdr.probe.result + value; }
    action add_option(bit<16> value) { hdr.probe.result = hdr.probe.result + value ^ hdr.option.address[15:0]; }
    action leave(bit<9> port) {
        std.egress_spec = port;
        exit;
    }
    action classify(bit<16> class) { meta.class = class; }
    action sign(int<16> value) { hdr.probe.signed = value; }

    table validity {
        key = {
            hdr.option.isValid(): exact;
            hdr.more[0].isValid(): ternary;
            meta.is_odd: exact;
        }
        actions = { add; leave; NoAction; }
        counters = by_validity;
        default_action = add(1);
        size = 8;
    }

    table masks {
        key = {
            hdr.probe.kind & 0x3c: exact @name("kind");
            hdr.probe.flags[11:4]: ternary @name("flags");
            hdr.probe.value ++ hdr.probe.kind: range @name("both");
        }
        actions = { add; classify; leave; }
        size = 32;
    }

    table prefixes {
        key = {
            hdr.probe.kind[1:0]: exact @name("low");
            hdr.option.address: lpm;
        }
        actions = { add; add_option; @defaultonly leave; }
        counters = by_prefix;
        default_action = add(5);
        size = 32;
    }

    table signed {
        key = { hdr.probe.signed: exact; hdr.probe.value: optional; }
        actions = { add; classify; sign; NoAction; }
        counters = by_class;
        default_action = NoAction();
        size = 16;
    }

    table constants {
        key = { hdr.probe.value: lpm; hdr.probe.kind: exact; }
        actions = { add; classify; leave; }
        default_action = add(100);
        const entries = {
            (0x80 &&& 0x80, 1): add(0x100);
            (0x80 &&& 0xf0, 1): add(0x200);
            (0x80, 1): leave(3);
            (_, 1): classify(7);
            (_, 2): add(0x400);
        }
    }

    table ranked {
        key = {
            hdr.probe.value: range;
            hdr.probe.flags: ternary;
            meta.class: optional;
        }
        actions = { add; leave; }
        const entries = {
            (5 .. 9, _, _): add(0x1000);
            (0 .. 200, 0x8000 &&& 0x8000, 7): add(0x2000);
            (_, 0xf &&& 0xf, _): leave(2);
            (100 .. 255, _, 0): add(0x4000);
        }
    }

    action reset() { meta.class = meta.class + 1; }
    table always {
        actions = { reset; add; leave; }
        default_action = reset();
    }

    apply {
        if (!hdr.probe.isValid()) {
            mark_to_drop(std);
            return;
        }
        std.egress_spec = 1;
        meta.is_odd = hdr.probe.value[0:0] == 1;
        always.apply();
        if (validity.apply().hit) { hdr.probe.path = hdr.probe.path | 1; }
        switch (masks.apply().action_run) {
            add:
            classify: { hdr.probe.path = hdr.probe.path | 4; }
            leave: { hdr.probe.path = hdr.probe.path | 8; }
            default: { hdr.probe.path = hdr.probe.path | 16; }
        }
        if (hdr.option.isValid()) {
            bool was_hit = prefixes.apply().hit;
            if (was_hit || signed.apply().miss) { hdr.probe.path = hdr.probe.path | 32; }
        }
        hdr.probe.path[15:8] = meta.class[7:0];
        if (hdr.probe.signed < 5) { hdr.probe.result = hdr.probe.result + 0x111; }
        if ((hdr.probe.signed |-| 3) >> 2 == -1) { hdr.probe.result = hdr.probe.result + 0x222; }
        constants.apply();
        ranked.apply();
        switch (hdr.probe.value) {
            1:
            2: { hdr.probe.path = hdr.probe.path | 64; }
            0xff: { exit; }
            default: { hdr.probe.path = hdr.probe.path | 128; }
        }
    }
}

control Leave(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action mark(bit<8> kind) { hdr.probe.kind = kind; }
    table ports {
        key = { std.egress_port: exact; std.packet_length: range; }
        actions = { mark; NoAction; }
        size = 8;
    }

    apply { ports.apply(); }
}

control Compute(inout headers_t hdr, inout metadata_t meta) { apply {} }

control Deparse(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.probe);
        packet.emit(hdr.option);
        packet.emit(hdr.more);
    }
}

V1Switch(P(), Verify(), Find(), Leave(), Compute(), Deparse()) main;
