// Action profiles and selectors, one shared by two tables; hits, misses, switch on the action, idle timeout.
#include <core.p4>
#include <v1model.p4>

header probe_t {
    bit<8>  profiled;
    bit<8>  selected;
    bit<16> flow;
    bit<16> chosen;
    bit<16> balanced;
    bit<16> shared;
    bit<8>  path;
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

control Choose(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action_profile(8) choices;
    action_selector(HashAlgorithm.crc16, 16, 16) paths;
    direct_counter(CounterType.packets_and_bytes) hits;

    action choose(bit<16> value) { hdr.probe.chosen = value; }
    action refuse() { hdr.probe.chosen = 0xffff; }
    table profiled {
        key = { hdr.probe.profiled: exact; }
        actions = { choose; refuse; NoAction; }
        implementation = choices;
        size = 16;
        support_timeout = true;
    }

    action balance(bit<16> value) {
        hdr.probe.balanced = value;
        hits.count();
    }
    action leave_out() {
        hdr.probe.path = hdr.probe.path | 1;
        hits.count();
    }
    action annotate(bit<8> mark) {
        if (mark == 0) {
            hdr.probe.path = hdr.probe.path | 128;
        } else {
            hdr.probe.profiled = mark;
        }
    }
    table selected {
        key = { hdr.probe.selected: ternary; hdr.probe.flow: selector; }
        actions = { balance; leave_out; annotate; NoAction; }
        implementation = paths;
        counters = hits;
        size = 16;
    }

    action share(bit<16> value) { hdr.probe.shared = hdr.probe.shared + value; }
    table first {
        key = { hdr.probe.selected: exact; }
        actions = { choose; refuse; NoAction; }
        implementation = choices;
        size = 16;
    }

    table plain {
        key = { hdr.probe.flow: lpm; }
        actions = { share; NoAction; }
        default_action = NoAction();
        size = 16;
        support_timeout = true;
    }

    apply {
        if (!hdr.probe.isValid()) {
            mark_to_drop(std);
            return;
        }
        std.egress_spec = 1;
        if (profiled.apply().hit) {
            hdr.probe.path = hdr.probe.path | 2;
        } else {
            hdr.probe.path = hdr.probe.path | 4;
        }
        switch (selected.apply().action_run) {
            balance: { hdr.probe.path = hdr.probe.path | 8; }
            leave_out: { hdr.probe.path = hdr.probe.path | 16; }
            default: { hdr.probe.path = hdr.probe.path | 32; }
        }
        hdr.probe.shared = hdr.probe.chosen;
        if (first.apply().miss) { hdr.probe.path = hdr.probe.path | 64; }
        plain.apply();
    }
}

control Leave(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) { apply {} }
control Compute(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Deparse(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.probe); } }

V1Switch(P(), Verify(), Choose(), Leave(), Compute(), Deparse()) main;
