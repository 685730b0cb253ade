// All parameters, in one register. A push adds to them unless it is to be ignored, and a pull reads them.
control Aggregate(inout headers_t hdr, in bool ignore_push) {
    register<bit<32>>(PARAMETERS) sums;

    action push(in bit<64> key, in bit<32> delta) {
        bit<32> sum;
        sums.read(sum, (bit<32>)key);
        sums.write((bit<32>)key, sum + delta);
    }

    action pull(in bit<64> key, inout word_t word) {
        word.setValid();
        sums.read(word.value, (bit<32>)key);
    }

    apply {
        if (hdr.rpc.op == Op.PULL) {
#define PULL(nn, i) if (hdr.keys[i].isValid()) { pull(hdr.keys[i].key, hdr.words[i]); }
            REPEAT(PULL)
#undef PULL
        } else if (!ignore_push) {
#define PUSH(nn, i) if (hdr.keys[i].isValid()) { push(hdr.keys[i].key, hdr.words[i].value); }
            REPEAT(PUSH)
#undef PUSH
        }
    }
}
