// Exercise of step 2: the switch has the parameters of the first server only.
#include "../frame.p4"
#include "../aggregate.p4"
#include "../turn_around.p4"
#include "half_arms.p4"

control HotlineIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    Aggregate() aggregate;
    TurnAround() turn_around;
    Forward() forward;

    apply {
        if (IS_REQUEST && hdr.rpc.job == ARM_SUM && hdr.rpc.ps == 0) {
            aggregate.apply(hdr, false);
            turn_around.apply(hdr, std);
        } else {
            forward.apply(hdr, meta, std);
        }
    }
}

@pkginfo(name="half", version=WIRE_VERSION_TEXT)
V1Switch(HotlineParser(), HotlineVerifyChecksum(), HotlineIngress(), HotlineEgress(), HotlineComputeChecksum(),
         HotlineDeparser()) main;
