// Step 6: the switch has the largest value that was pushed to each parameter. What comes twice does no harm.
#include "frame.p4"
#include "turn_around.p4"
#include "largest_arms.p4"

control HotlineIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    register<bit<32>>(PARAMETERS) largest;
    TurnAround() turn_around;
    Forward() forward;

    action push(in bit<64> key, in bit<32> value) {
        bit<32> last;
        largest.read(last, (bit<32>)key);
        if ((int<32>)value > (int<32>)last) {
            largest.write((bit<32>)key, value);
        }
    }

    action pull(in bit<64> key, inout word_t word) {
        word.setValid();
        largest.read(word.value, (bit<32>)key);
    }

    apply {
        if (IS_REQUEST && hdr.rpc.job == ARM_LARGEST) {
            if (hdr.rpc.op == Op.PULL) {
#define PULL(nn, i) if (hdr.keys[i].isValid()) { pull(hdr.keys[i].key, hdr.words[i]); }
                REPEAT(PULL)
#undef PULL
            } else {
#define PUSH(nn, i) if (hdr.keys[i].isValid()) { push(hdr.keys[i].key, hdr.words[i].value); }
                REPEAT(PUSH)
#undef PUSH
            }
            turn_around.apply(hdr, std);
        } else {
            forward.apply(hdr, meta, std);
        }
    }
}

@pkginfo(name="largest", version=WIRE_VERSION_TEXT)
V1Switch(HotlineParser(), HotlineVerifyChecksum(), HotlineIngress(), HotlineEgress(), HotlineComputeChecksum(),
         HotlineDeparser()) main;
