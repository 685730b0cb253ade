// What the exercises ecn, mri and link_monitor do: marks of long queues, queue depths of each switch on the way,
// and probes that read the bytes sent by each port since the probe before.
#include <core.p4>
#include <v1model.p4>

const bit<16> TYPE_TRACE = 0x1001;
const bit<16> TYPE_PROBE = 0x1002;
const bit<19> THRESHOLD = 10;

header ethernet_t {
    bit<48> destination;
    bit<48> source;
    bit<16> type;
}

header trace_t {
    bit<8> is_marked;
    bit<8> count;
}

header hop_t {
    bit<8>  switch_id;
    bit<32> depth;
}

header probe_t { bit<8> count; }

header reading_t {
    bit<8>  switch_id;
    bit<32> bytes;
    bit<48> since;
    bit<48> until;
}

struct headers_t {
    ethernet_t ethernet;
    trace_t trace;
    hop_t[4] hops;
    probe_t probe;
    reading_t[4] readings;
}

struct metadata_t {
    bit<8> remaining;
    bit<8> switch_id;
}

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            TYPE_TRACE: trace;
            TYPE_PROBE: probe;
            default: accept;
        }
    }

    state trace {
        packet.extract(hdr.trace);
        meta.remaining = hdr.trace.count;
        transition more_hops;
    }

    state more_hops {
        transition select(meta.remaining) {
            0: accept;
            default: hop;
        }
    }

    state hop {
        packet.extract(hdr.hops.next);
        meta.remaining = meta.remaining - 1;
        transition more_hops;
    }

    state probe {
        packet.extract(hdr.probe);
        meta.remaining = hdr.probe.count;
        transition more_readings;
    }

    state more_readings {
        transition select(meta.remaining) {
            0: accept;
            default: reading;
        }
    }

    state reading {
        packet.extract(hdr.readings.next);
        meta.remaining = meta.remaining - 1;
        transition more_readings;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }

control Forward(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action forward(bit<9> port) { std.egress_spec = port; }

    table hosts {
        key = { hdr.ethernet.destination : exact; }
        actions = { forward; NoAction; }
        default_action = NoAction();
    }

    apply { hosts.apply(); }
}

control Measure(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    register<bit<32>>(8) bytes;
    register<bit<48>>(8) times;

    action set_identity(bit<8> switch_id) { meta.switch_id = switch_id; }

    table identity {
        actions = { set_identity; NoAction; }
        default_action = NoAction();
    }

    apply {
        bit<32> port = (bit<32>) std.egress_port;
        bit<32> sent;
        bit<48> since;
        identity.apply();
        bytes.read(sent, port);
        sent = sent + std.packet_length;
        if (hdr.probe.isValid()) {
            times.read(since, port);
            hdr.readings.push_front(1);
            hdr.readings[0] = { meta.switch_id, sent, since, std.egress_global_timestamp };
            hdr.probe.count = hdr.probe.count + 1;
            times.write(port, std.egress_global_timestamp);
            sent = 0;
        }
        bytes.write(port, sent);
        if (hdr.trace.isValid()) {
            if (std.enq_qdepth >= THRESHOLD) { hdr.trace.is_marked = 1; }
            hdr.hops.push_front(1);
            hdr.hops[0] = { meta.switch_id, (bit<32>) std.deq_qdepth };
            hdr.trace.count = hdr.trace.count + 1;
        }
    }
}

control Compute(inout headers_t hdr, inout metadata_t meta) { apply {} }

control Deparse(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }

V1Switch(P(), Verify(), Forward(), Measure(), Compute(), Deparse()) main;
