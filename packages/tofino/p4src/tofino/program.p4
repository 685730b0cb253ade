// The hot set for the Tofino Native Architecture (TNA): the protocol of p4src/hotset, redesigned for a switch chip.
// With V1MODEL defined it is the twin that softswitch runs. 4, 8 and 16 lanes were compiled for Tofino 1 and 2, and 16
// ran on the open model of a Tofino 1. Nothing ran on a chip.
#ifdef V1MODEL
#include "v1model.p4"
#else
#include "tna.p4"
#endif

#include "headers.p4"
#include "rows_of_16.p4"
#include "common/ipv4_checksum.p4"
#include "common/drop.p4"
#include "validate.p4"
#include "identify.p4"
#include "lane_lookup.p4"
#include "exactly_once.p4"
#include "lane_aggregate.p4"
#include "readdress.p4"
#include "forward.p4"
#include "process.p4"

#ifdef V1MODEL
#include "common/udp_parser.p4"
#include "parser_v1model.p4"
#include "hotset/deparser.p4"
#include "common/checksums.p4"
#include "pipeline_v1model.p4"
#else
#include "parser_tna.p4"
#include "pipeline_tna.p4"
#endif
