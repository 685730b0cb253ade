// Step 2: the switch has all parameters. It adds what is pushed, and answers pulls and pushes itself.
#include "frame.p4"
#include "aggregate.p4"
#include "turn_around.p4"
#include "sum_arms.p4"

control HotlineIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    Aggregate() aggregate;
    TurnAround() turn_around;
    Forward() forward;

    apply {
        if (IS_REQUEST && hdr.rpc.job == ARM_SUM) {
            aggregate.apply(hdr, false);
            turn_around.apply(hdr, std);
        } else {
            forward.apply(hdr, meta, std);
        }
    }
}

@pkginfo(name="sum", version=WIRE_VERSION_TEXT)
V1Switch(HotlineParser(), HotlineVerifyChecksum(), HotlineIngress(), HotlineEgress(), HotlineComputeChecksum(),
         HotlineDeparser()) main;
