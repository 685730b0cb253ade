// Every match kind, one table each; what matched is added up in the header that comes back.
#include <core.p4>
#include <v1model.p4>

header probe_t {
    bit<32> prefix;
    bit<16> exact_part;
    bit<16> ranged;
    bit<8>  small;
    bit<96> wide;
    bit<16> by_lpm;
    bit<16> by_ternary;
    bit<16> by_range;
    bit<16> by_const;
}

struct headers_t { probe_t probe; }
struct metadata_t {}

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.probe);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }

control Pick(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    direct_counter(CounterType.packets) ternary_hits;

    action lpm_hit(bit<16> value) { hdr.probe.by_lpm = value; }
    table lpm_table {
        key = { hdr.probe.exact_part: exact; hdr.probe.prefix: lpm; }
        actions = { lpm_hit; NoAction; }
        default_action = NoAction();
        size = 64;
    }

    action ternary_hit(bit<16> value) { hdr.probe.by_ternary = value; ternary_hits.count(); }
    table ternary_table {
        key = { hdr.probe.wide: ternary; hdr.probe.small: optional; }
        actions = { ternary_hit; NoAction; }
        default_action = NoAction();
        counters = ternary_hits;
        size = 64;
    }

    action range_hit(bit<16> value) { hdr.probe.by_range = value; }
    table range_table {
        key = { hdr.probe.ranged: range; hdr.probe.small: ternary; hdr.probe.wide: range; }
        actions = { range_hit; NoAction; }
        default_action = NoAction();
        size = 64;
    }

    action const_hit(bit<16> value) { hdr.probe.by_const = value; }
    table const_table {
        key = { hdr.probe.prefix: ternary; hdr.probe.ranged: range; }
        actions = { const_hit; NoAction; }
        const default_action = NoAction();
        const entries = {
            (0x0a000000 &&& 0xff000000, 0 .. 100): const_hit(1);
            (0x0a000000 &&& 0xffff0000, _): const_hit(2);
            (_, 50 .. 60): const_hit(3);
            (0x0a0b0000 &&& 0xffff0000, 5 .. 5): const_hit(4);
        }
    }

    apply {
        lpm_table.apply();
        ternary_table.apply();
        range_table.apply();
        const_table.apply();
        std.egress_spec = 1;
    }
}

control Leave(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) { apply {} }
control Compute(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Deparse(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.probe); } }

V1Switch(P(), Verify(), Pick(), Leave(), Compute(), Deparse()) main;
