// What all three steps share: the wire format of Hotline's RPC, and a switch that forwards by MAC address.
#include <core.p4>
#include <v1model.p4>
#include "common/constants.p4"
#include "common/headers.p4"
#include "hotset/constants.p4"
#include "common/repeat.p4"
#include "hotset/headers.p4"
#include "common/udp_parser.p4"
#include "hotset/parser.p4"
#include "common/checksums.p4"
#include "hotset/egress.p4"
#include "hotset/deparser.p4"
#include "common/forward.p4"

#define PARAMETERS 65536       // keys are 0, 1, 2, ...: a key is its cell
#define IS_REQUEST (hdr.rpc.isValid() && hdr.rpc.flags & FLAG_RESPONSE == 0 \
                    && (hdr.rpc.op == Op.PULL || hdr.rpc.op == Op.PUSH))
