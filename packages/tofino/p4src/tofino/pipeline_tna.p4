// The chip's pipeline around Process. Egress is bypassed: all state is in ingress.
control HotlineIngress(inout headers_t hdr, inout metadata_t meta, in ingress_intrinsic_metadata_t intrinsic,
                       in ingress_intrinsic_metadata_from_parser_t from_parser,
                       inout ingress_intrinsic_metadata_for_deparser_t for_deparser,
                       inout ingress_intrinsic_metadata_for_tm_t for_tm) {
    Process() process;

    apply {
        process.apply(hdr, meta, from_parser.parser_err, intrinsic.ingress_port, for_tm.ucast_egress_port);
        hdr.packet_out.setInvalid();
        for_tm.bypass_egress = 1;
        if (meta.kind == PacketKind.DROPPED) {
            for_deparser.drop_ctl = 1;
        }
        if (for_tm.ucast_egress_port == SWITCH_CPU_PORT) {
            hdr.packet_in.setValid();
            hdr.packet_in.ingress_port = intrinsic.ingress_port;
            hdr.packet_in._pad = 0;
        }
    }
}

control HotlineDeparser(packet_out packet, inout headers_t hdr, in metadata_t meta,
                        in ingress_intrinsic_metadata_for_deparser_t for_deparser) {
    Checksum() ipv4_checksum;

    apply {
        if (hdr.rpc.isValid()) {
            hdr.ipv4.hdr_checksum = ipv4_checksum.update(IPV4_CHECKSUM_FIELDS(hdr.ipv4));
        }
        packet.emit(hdr.packet_in);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.udp);
        packet.emit(hdr.rpc);
#define EMIT_KEY(nn, i) packet.emit(hdr.keys[i]);
        EACH_LANE(EMIT_KEY)
#undef EMIT_KEY
#define EMIT_VALUE(nn, i) packet.emit(hdr.words[i]);
        EACH_VALUE(EMIT_VALUE)
#undef EMIT_VALUE
    }
}

struct no_headers_t {}
struct no_metadata_t {}

parser EmptyParser(packet_in packet, out no_headers_t hdr, out no_metadata_t meta,
                   out egress_intrinsic_metadata_t intrinsic) {
    state start {
        packet.extract(intrinsic);
        transition accept;
    }
}

control EmptyEgress(inout no_headers_t hdr, inout no_metadata_t meta, in egress_intrinsic_metadata_t intrinsic,
                    in egress_intrinsic_metadata_from_parser_t from_parser,
                    inout egress_intrinsic_metadata_for_deparser_t for_deparser,
                    inout egress_intrinsic_metadata_for_output_port_t for_port) {
    apply {
    }
}

control EmptyDeparser(packet_out packet, inout no_headers_t hdr, in no_metadata_t meta,
                      in egress_intrinsic_metadata_for_deparser_t for_deparser) {
    apply {
    }
}

// Flags are set on some paths only: without this annotation, ternary keys read what an earlier packet has left.
@pa_auto_init_metadata
@pkginfo(name="tofino", version=WIRE_VERSION_TEXT)
Pipeline(HotlineParser(), HotlineIngress(), HotlineDeparser(), EmptyParser(), EmptyEgress(), EmptyDeparser()) pipe;

Switch(pipe) main;
