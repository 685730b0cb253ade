// Branches and loops in the bodies of actions, which p4c prints as jumps: if, else, nested, return, exit, for, break,
// continue, and loops in loops.
#include <core.p4>
#include <v1model.p4>

header probe_t {
    bit<8>  op;
    bit<8>  left;
    bit<8>  right;
    bit<8>  laps;
    bit<32> sum;
    bit<32> product;
    bit<8>  path;
}

header extra_t { bit<16> value; }

struct headers_t {
    probe_t probe;
    extra_t first;
    extra_t second;
}

struct metadata_t { bit<8> depth; }

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.probe);
        transition select(hdr.probe.op) {
            0x80 &&& 0x80: parse_first;
            default: accept;
        }
    }
    state parse_first {
        packet.extract(hdr.first);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }

control Branch(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    register<bit<32>>(16) kept;
    counter(4, CounterType.packets_and_bytes) taken;

    action compare(bit<8> bound) {
        if (hdr.probe.left < bound) {
            hdr.probe.path = 1;
            taken.count(0);
        } else if (hdr.probe.left == bound && hdr.probe.right > 7) {
            hdr.probe.path = 2;
            taken.count(1);
        } else {
            if (hdr.first.isValid()) {
                hdr.second.setValid();
                hdr.second.value = hdr.first.value ^ 0xffff;
                hdr.first.setInvalid();
            } else {
                hdr.first.setValid();
                hdr.first.value = 0xabcd;
            }
            taken.count(2);
        }
        hdr.probe.sum = hdr.probe.sum + (hdr.probe.left < hdr.probe.right ? 32w1 : 32w2);
    }

    action leave_early() {
        if (hdr.probe.left == 1) {
            return;
        }
        hdr.probe.path = 3;
        if (hdr.probe.right == 4) {
            log_msg("left {} of {}", {hdr.probe.left, hdr.probe.right});
        }
        if (hdr.probe.left == 2) {
            exit;
        }
        hdr.probe.path = 4;
        if (hdr.probe.right == 5) {
            if (hdr.probe.left == 3) {
                exit;
            } else if (hdr.probe.left == 4) {
                return;
            }
            hdr.probe.path = 5;
        }
        hdr.probe.sum = hdr.probe.sum ^ 0xff00ff00;
    }

    action leave() {
        hdr.probe.path = 6;
        exit;
    }

    action add_up() {
        for (bit<32> i = 0; i < (bit<32>)hdr.probe.laps; i = i + 1) {
            if (i == (bit<32>)hdr.probe.right) {
                continue;
            }
            if (i == (bit<32>)hdr.probe.left) {
                break;
            }
            bit<32> held;
            kept.read(held, i);
            hdr.probe.sum = hdr.probe.sum + held + i;
            kept.write(i, hdr.probe.sum);
        }
        hdr.probe.path = hdr.probe.path + 1;
    }

    action multiply() {
        bit<32> product = 0;
        for (bit<8> i = 0; i < (hdr.probe.left & 15); i = i + 1) {
            for (bit<8> j = 0; j < (hdr.probe.right & 15); j = j + 1) {
                if (j == 9) {
                    break;
                }
                product = product + 1;
                meta.depth = meta.depth + 1;
            }
            if (product > 100) {
                return;
            }
        }
        hdr.probe.product = product;
    }

    // Laps of 0 never end where `left` is not 0.
    action wind_down() {
        for (bit<8> i = hdr.probe.left; i != 0; i = i |-| hdr.probe.laps) {
            hdr.probe.sum = hdr.probe.sum + 1;
        }
    }

    action drop_odd() {
        if (hdr.probe.left[0:0] == 1) {
            mark_to_drop(std);
        } else {
            std.egress_spec = 2;
        }
    }

    table chosen {
        key = { hdr.probe.op: exact; }
        actions = { compare; leave_early; leave; add_up; multiply; wind_down; drop_odd; NoAction; }
        const default_action = NoAction();
        size = 32;
    }

    table last {
        key = { hdr.probe.path: exact; }
        actions = { compare; leave_early; NoAction; }
        default_action = compare(128);
        size = 8;
    }

    apply {
        std.egress_spec = 1;
        // Fields of invalid headers hold what the last packet left, in BMv2.
        if (hdr.probe.isValid()) {
            if (chosen.apply().hit) {
                hdr.probe.product = hdr.probe.product + 1;
            }
            last.apply();
            if (hdr.probe.right == 255) {
                leave_early();
            }
        }
    }
}

control Leave(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action mark() {
        if (meta.depth > 3) {
            hdr.probe.left = meta.depth;
        }
    }
    apply { mark(); }
}

control Compute(inout headers_t hdr, inout metadata_t meta) { apply {} }

control D(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.probe);
        packet.emit(hdr.first);
        packet.emit(hdr.second);
    }
}

V1Switch(P(), Verify(), Branch(), Leave(), Compute(), D()) main;
