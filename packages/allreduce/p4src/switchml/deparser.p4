control HotlineDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.udp);
        packet.emit(hdr.switchml);
        packet.emit(hdr.exponents);
        packet.emit(hdr.values);
        packet.emit(hdr.cut);
    }
}
