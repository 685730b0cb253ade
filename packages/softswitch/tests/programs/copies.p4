// Primitives and externs whose arguments are copies of headers, structs and standard_metadata.
#include <core.p4>
#include <v1model.p4>

header probe_t {
    bit<8> op;
    bit<8> egress_op;
    bit<8> port;
    bit<8> group;
    bit<16> value;
    bit<16> result;
}

header item_t {
    bit<8> kind;
    bit<8> value;
}

header short_t { bit<8> value; }
header long_t { bit<24> value; }

header_union either_t {
    short_t short;
    long_t long;
}

struct headers_t {
    probe_t probe;
    item_t[3] items;
    either_t either;
    item_t spare;
}

struct counts_t {
    bit<16> sum;
    bit<16> index;
    bit<8> colour;
}

struct metadata_t {
    counts_t counts;
    @field_list(1)
    bit<16> kept;
}

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.probe);
        transition items;
    }
    state items {
        transition select(packet.lookahead<bit<8>>()) {
            1: item;
            2: short;
            3: long;
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

void drop_given(inout standard_metadata_t given) { mark_to_drop(given); }

void send_to(inout standard_metadata_t given, in bit<8> port, in bit<8> group) {
    given.egress_spec = (bit<9>)port;
    given.mcast_grp = (bit<16>)group;
}

control Change(inout headers_t hdr, inout counts_t counts, inout standard_metadata_t given) {
    register<bit<16>>(4) cells;
    counter(4, CounterType.packets) seen;

    action drop_and_leave(inout standard_metadata_t copy) {
        mark_to_drop(copy);
        exit;
    }
    action add(inout counts_t copy, in bit<16> value) {
        bit<16> old;
        cells.read(old, (bit<32>)copy.index);
        copy.sum = copy.sum + old + value;
        cells.write((bit<32>)copy.index, copy.sum);
        seen.count((bit<32>)copy.index);
    }
    action scatter(inout counts_t copy) {
        hash(copy.sum, HashAlgorithm.crc16, copy.index, { copy.sum, hdr.probe.value }, (bit<32>)1000);
    }
    action invalidate(inout item_t item) { item.setInvalid(); }
    action revive(inout item_t item, in bit<8> kind) {
        item.setValid();
        item.kind = kind;
    }
    action push(inout item_t[3] items) { items.push_front(1); }
    action pop(inout item_t[3] items) { items.pop_front(2); }
    action lengthen(inout either_t either) {
        either.long.setValid();
        either.long.value = 0x030201;
    }

    apply {
        if (hdr.probe.op[3:0] == 0) { drop_and_leave(given); }
        if (hdr.probe.op[3:0] == 1) { add(counts, hdr.probe.value); }
        if (hdr.probe.op[3:0] == 2) { scatter(counts); }
        if (hdr.probe.op[3:0] == 3) { invalidate(hdr.items[0]); }
        if (hdr.probe.op[3:0] == 4) { revive(hdr.items[2], hdr.probe.group); }
        if (hdr.probe.op[3:0] == 5) { push(hdr.items); }
        if (hdr.probe.op[3:0] == 6) { pop(hdr.items); }
        if (hdr.probe.op[3:0] == 7) { lengthen(hdr.either); }
        if (hdr.probe.op[3:0] == 8) { drop_given(given); }
        if (hdr.probe.op[3:0] == 9) { truncate((bit<32>)counts.index + 5); }
        if (hdr.probe.op[3:0] == 10) { hdr.spare = hdr.items[1]; }
        if (hdr.probe.op[3:0] == 11) { hdr.items[1] = hdr.spare; }
    }
}

control Forward(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    Change() change;

    action start() {
        meta.kept = hdr.probe.value;
        meta.counts = { hdr.probe.value, (bit<16>)hdr.probe.port & 7, 0 };
        send_to(std, hdr.probe.port, hdr.probe.group & 1);
    }
    action drop_unused() {
        standard_metadata_t unused = std;
        mark_to_drop(unused);
    }

    apply {
        if (!hdr.probe.isValid()) {
            drop_given(std);
            exit;
        }
        start();
        if (hdr.probe.op[4:4] == 1) { drop_unused(); }
        if (hdr.probe.op[5:5] == 1) { drop_given(std); }
        if (hdr.probe.op[6:6] == 1) { send_to(std, hdr.probe.port ^ 1, 0); }
        counts_t counts = meta.counts;
        change.apply(hdr, counts, std);
        if (hdr.probe.op[7:7] == 1) { clone_preserving_field_list(CloneType.I2E, 1, 1); }
        hdr.probe.result = counts.sum;
    }
}

control Leave(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    Change() change;
    apply {
        hdr.probe.value = meta.kept;
        if (hdr.probe.egress_op[7:4] == 1) { drop_given(std); }
        if (hdr.probe.egress_op[7:4] == 2) {
            standard_metadata_t unused = std;
            drop_given(unused);
        }
        if (hdr.probe.egress_op[7:4] == 3) {
            counts_t counts = meta.counts;
            hdr.probe.op = hdr.probe.egress_op;
            change.apply(hdr, counts, std);
            hdr.probe.result = counts.sum;
        }
    }
}

control Deparse(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.probe);
        packet.emit(hdr.items);
        packet.emit(hdr.either);
        packet.emit(hdr.spare);
    }
}

V1Switch(P(), Verify(), Forward(), Leave(), Compute(), Deparse()) main;
