// Step 7: the switch forwards, counts the updates of each parameter, and reports those that are often updated.
#include "frame.p4"

#define LIMIT 50

struct report_t {
    bit<64> key;
    bit<32> updates;
}

control HotlineIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    register<bit<32>>(PARAMETERS) updates;
    Forward() forward;

    action count(in bit<64> key) {
        bit<32> n;
        updates.read(n, (bit<32>)key);
        updates.write((bit<32>)key, n + 1);
        if (n + 1 == LIMIT) {
            digest<report_t>(1, { key, n + 1 });
        }
    }

    apply {
        if (IS_REQUEST && hdr.rpc.op == Op.PUSH) {
#define COUNT(nn, i) if (hdr.keys[i].isValid()) { count(hdr.keys[i].key); }
            REPEAT(COUNT)
#undef COUNT
        }
        forward.apply(hdr, meta, std);
    }
}

@pkginfo(name="hot", version=WIRE_VERSION_TEXT)
V1Switch(HotlineParser(), HotlineVerifyChecksum(), HotlineIngress(), HotlineEgress(), HotlineComputeChecksum(),
         HotlineDeparser()) main;
