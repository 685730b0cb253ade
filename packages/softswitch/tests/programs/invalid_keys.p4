// Keys of tables from headers that were never valid, are no longer valid, or get fields while they are invalid.
#include <core.p4>
#include <v1model.p4>

header probe_t {
    bit<8> op;
    bit<8> next;
    bit<8> exact_hit;
    bit<8> prefix_hit;
    bit<8> mask_hit;
    bit<8> range_hit;
    bit<8> stack_hit;
    bit<8> union_hit;
}

header option_t {
    bit<8> kind;
    bit<16> value;
    int<8> signed;
}

header item_t { bit<8> value; }
header short_t { bit<8> value; }
header long_t { bit<16> value; }

header_union either_t {
    short_t short;
    long_t long;
}

struct headers_t {
    probe_t probe;
    option_t option;
    option_t other;
    item_t[3] items;
    either_t either;
}

struct metadata_t {}

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.probe);
        transition select(hdr.probe.next) {
            0x80 &&& 0x80: option;
            default: items;
        }
    }
    state option {
        packet.extract(hdr.option);
        transition items;
    }
    state items {
        transition select(packet.lookahead<bit<8>>()) {
            0x40 &&& 0xf0: item;
            0x50 &&& 0xf0: short;
            0x60 &&& 0xf0: long;
            default: accept;
        }
    }
    state item {
        packet.extract(hdr.items.next);
        transition items;
    }
    state short {
        packet.extract(hdr.either.short);
        transition accept;
    }
    state long {
        packet.extract(hdr.either.long);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Compute(inout headers_t hdr, inout metadata_t meta) { apply {} }

control Look(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action exact_hit(bit<8> number) { hdr.probe.exact_hit = number; }
    action prefix_hit(bit<8> number) { hdr.probe.prefix_hit = number; }
    action mask_hit(bit<8> number) { hdr.probe.mask_hit = number; }
    action range_hit(bit<8> number) { hdr.probe.range_hit = number; }
    action stack_hit(bit<8> number) { hdr.probe.stack_hit = number; }
    action union_hit(bit<8> number) { hdr.probe.union_hit = number; }

    table exact_keys {
        key = { hdr.option.value: exact; hdr.other.kind: exact; }
        actions = { exact_hit; }
        default_action = exact_hit(99);
        const entries = {
            (0, 0): exact_hit(1);
            (0x123, 0): exact_hit(2);
            (0, 5): exact_hit(3);
            (0x123, 5): exact_hit(4);
        }
    }
    table prefixes {
        key = { hdr.other.value: lpm; }
        actions = { prefix_hit; }
        default_action = prefix_hit(99);
        const entries = {
            0x100 &&& 0xff00: prefix_hit(1);
            0x123: prefix_hit(2);
            0: prefix_hit(3);
        }
    }
    table masks {
        key = { hdr.option.kind: ternary; hdr.option.signed: ternary; hdr.option.isValid(): exact; }
        actions = { mask_hit; }
        default_action = mask_hit(99);
        const entries = {
            (5, _, true): mask_hit(1);
            (0, 0, false): mask_hit(2);
            (_, 127, true): mask_hit(3);
        }
    }
    table ranges {
        key = { hdr.option.value & 0xfff0: range @name("masked"); hdr.other.signed: ternary; }
        actions = { range_hit; }
        default_action = range_hit(99);
        const entries = {
            (0x100 .. 0x1ff, _): range_hit(1);
            (0 .. 3, 0): range_hit(2);
        }
    }
    table stacked {
        key = { hdr.items[0].value: exact; hdr.items[1].value: exact; hdr.items[2].value: ternary; }
        actions = { stack_hit; }
        default_action = stack_hit(99);
        const entries = {
            (0, 0, 0): stack_hit(1);
            (0x41, 0, _): stack_hit(2);
            (0, 0x41, _): stack_hit(3);
            (0x41, 0x41, 0): stack_hit(4);
            (0x41, 0x41, _): stack_hit(5);
        }
    }
    table unions {
        key = { hdr.either.short.value: exact; hdr.either.long.value: exact; }
        actions = { union_hit; }
        default_action = union_hit(99);
        const entries = {
            (0, 0): union_hit(1);
            (0x51, 0): union_hit(2);
            (0, 0x6101): union_hit(3);
        }
    }

    apply {
        if (hdr.probe.op == 1) { hdr.option.setInvalid(); }
        if (hdr.probe.op == 2) { hdr.option.value = 0x123; hdr.option.kind = 5; hdr.option.signed = 127; }
        if (hdr.probe.op == 3) { hdr.other = hdr.option; }
        if (hdr.probe.op == 4) { hdr.other = hdr.option; hdr.option.setInvalid(); hdr.other = hdr.option; }
        if (hdr.probe.op == 5) { hdr.other.value = 0x123; hdr.other.kind = 5; }
        if (hdr.probe.op == 6 && hdr.items[2].isValid()) { hdr.items.push_front(1); }
        if (hdr.probe.op == 7) { hdr.items.pop_front(1); }
        if (hdr.probe.op == 8) { hdr.items[1].setInvalid(); }
        if (hdr.probe.op == 9) { hdr.either.short.value = 0x51; }
        if (hdr.probe.op == 10) { hdr.either.long.setValid(); hdr.either.long.value = 0x6101; }
        if (hdr.probe.op == 11) { hdr.either.short.setInvalid(); hdr.either.long.setInvalid(); }
        exact_keys.apply();
        prefixes.apply();
        masks.apply();
        ranges.apply();
        // p4c copies elements of stacks to metadata, which matches what they hold.
        if (hdr.items[2].isValid()) { stacked.apply(); }
        unions.apply();
    }
}

control Forward(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    Look() look;
    apply {
        std.egress_spec = 3;
        if (hdr.probe.isValid()) { look.apply(hdr, meta, std); }
    }
}

control Leave(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {}
}

control Deparse(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr); }
}

V1Switch(P(), Verify(), Forward(), Leave(), Compute(), Deparse()) main;
