// Headers that precede a frame between switch and controller.
#ifndef PACKET_IO_P4
#define PACKET_IO_P4

const bit<16> PACKET_OUT_BYTES = 2;

// A frame from the controller. It leaves by `egress_port` as it is, or, if `submit_to_ingress` is 1, it is processed
// as if it had arrived on the CPU port.
@controller_header("packet_out")
header packet_out_t {
    port_t egress_port;
    bit<1> submit_to_ingress;
    bit<6> _pad;
}

@controller_header("packet_in")
header packet_in_t {
    port_t ingress_port;
    bit<7> _pad;
}

#endif
