// Operators on bit, int and bool of many widths; every result is in the answer. Registers keep what overflows.
#include <core.p4>
#include <v1model.p4>

header operands_t {
    bit<8>   a;
    bit<8>   b;
    int<8>   s;
    int<8>   t;
    bit<13>  odd;
    bit<3>   three;
    int<33>  wide_signed;
    bit<7>   seven;
    bit<64>  x;
    bit<64>  y;
    bit<512> v;
    bit<512> w;
}

header results_t {
    bit<8>   sum;
    bit<8>   difference;
    bit<8>   product;
    bit<8>   saturated_sum;
    bit<8>   saturated_difference;
    int<8>   signed_sum;
    int<8>   signed_difference;
    int<8>   signed_product;
    int<8>   saturated_signed_sum;
    int<8>   saturated_signed_difference;
    bit<8>   quotient;
    bit<8>   remainder;
    bit<8>   left;
    bit<8>   right;
    int<8>   arithmetic_left;
    int<8>   arithmetic_right;
    bit<8>   logic;
    bit<8>   flags;
    bit<16>  joined;
    bit<13>  sliced;
    bit<3>   negated;
    int<33>  widened;
    bit<7>   narrowed;
    bit<64>  big;
    bit<512> huge_sum;
    bit<512> huge_product;
    bit<512> huge_shift;
    bit<512> huge_logic;
    bit<8>   chosen;
    bit<64>  stored;
}

struct headers_t {
    operands_t given;
    results_t  result;
}

struct metadata_t {
    bool same;
}

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.given);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }

control Calculate(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    register<bit<64>>(16) sums;
    register<int<8>>(4) signs;

    action arithmetic() {
        hdr.result.sum = hdr.given.a + hdr.given.b;
        hdr.result.difference = hdr.given.a - hdr.given.b;
        hdr.result.product = hdr.given.a * hdr.given.b;
        hdr.result.saturated_sum = hdr.given.a |+| hdr.given.b;
        hdr.result.saturated_difference = hdr.given.a |-| hdr.given.b;
        hdr.result.signed_sum = hdr.given.s + hdr.given.t;
        hdr.result.signed_difference = hdr.given.s - hdr.given.t;
        hdr.result.signed_product = hdr.given.s * hdr.given.t;
        hdr.result.saturated_signed_sum = hdr.given.s |+| hdr.given.t;
        hdr.result.saturated_signed_difference = hdr.given.s |-| hdr.given.t;
    }

    action bits() {
        hdr.result.left = hdr.given.a << (hdr.given.b & 15);
        hdr.result.right = hdr.given.a >> (hdr.given.b & 15);
        hdr.result.arithmetic_left = hdr.given.s << (hdr.given.b & 15);
        hdr.result.arithmetic_right = hdr.given.s >> (hdr.given.b & 15);
        hdr.result.logic = (hdr.given.a & hdr.given.b) ^ (~hdr.given.a | 0x0f);
        hdr.result.joined = hdr.given.b ++ hdr.given.a;
        hdr.result.sliced = hdr.given.odd[4:0] ++ hdr.given.x[45:38];
        hdr.result.negated = -hdr.given.three;
        hdr.result.big = hdr.given.x * hdr.given.y + ((bit<64>) hdr.given.odd << 20);
        hdr.result.big[15:8] = hdr.given.a;
    }

    action casts() {
        hdr.result.widened = hdr.given.wide_signed + (int<33>) hdr.given.s;
        hdr.result.narrowed = (bit<7>) hdr.given.x;
        if (hdr.given.s < 0) { hdr.result.widened = -hdr.result.widened; }
    }

    action huge() {
        hdr.result.huge_sum = hdr.given.v + hdr.given.w;
        hdr.result.huge_product = hdr.given.v * hdr.given.w;
        hdr.result.huge_shift = hdr.given.v << hdr.given.x[7:0] << hdr.given.x[15:8] | hdr.given.w >> hdr.given.y[7:0] >> hdr.given.y[15:8];
        hdr.result.huge_logic = ~hdr.given.v ^ (hdr.given.w & (hdr.given.v - 1));
    }

    action compare() {
        bit<8> flags = 0;
        flags[0:0] = hdr.given.a < hdr.given.b ? 1w1 : 1w0;
        flags[1:1] = hdr.given.s < hdr.given.t ? 1w1 : 1w0;
        flags[2:2] = hdr.given.v >= hdr.given.w ? 1w1 : 1w0;
        flags[3:3] = (hdr.given.a == hdr.given.b) == (hdr.given.s == hdr.given.t) ? 1w1 : 1w0;
        flags[4:4] = hdr.given.wide_signed > 0 && !(hdr.given.x == hdr.given.y) ? 1w1 : 1w0;
        flags[5:5] = (bit<1>) meta.same;
        flags[6:6] = (int<8>) hdr.given.a <= hdr.given.s || hdr.given.three != 5 ? 1w1 : 1w0;
        hdr.result.flags = flags;
        hdr.result.chosen = hdr.given.s > hdr.given.t ? hdr.given.a : hdr.given.b;
    }

    action divide(bit<8> divisor) {
        hdr.result.remainder = divisor - hdr.result.chosen;
    }

    table divisors {
        key = { hdr.given.s: exact; hdr.given.three: ternary; }
        actions = { divide; NoAction; }
        default_action = NoAction();
        size = 16;
    }

    apply {
        if (!hdr.given.isValid()) {
            mark_to_drop(std);
            return;
        }
        std.egress_spec = 1;
        hdr.result.setValid();
        meta.same = hdr.given.a == hdr.given.b;
        arithmetic();
        bits();
        casts();
        huge();
        compare();
        hdr.result.quotient = (hdr.given.a & 0xf0) / 16;
        divisors.apply();
        bit<64> before;
        sums.read(before, (bit<32>) hdr.given.three);
        before = before + hdr.given.x;
        sums.write((bit<32>) hdr.given.three, before);
        hdr.result.stored = before;
        int<8> sign;
        signs.read(sign, (bit<32>) hdr.given.three[0:0]);
        if (sign < hdr.given.s) { signs.write((bit<32>) hdr.given.three[0:0], hdr.given.s); }
    }
}

control Leave(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) { apply {} }
control Compute(inout headers_t hdr, inout metadata_t meta) { apply {} }

control Deparse(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.given);
        packet.emit(hdr.result);
    }
}

V1Switch(P(), Verify(), Calculate(), Leave(), Compute(), Deparse()) main;
