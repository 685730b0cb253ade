control HotlineDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet_in);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.udp);
        packet.emit(hdr.rpc);
        packet.emit(hdr.keys);
        packet.emit(hdr.words);
        packet.emit(hdr.quads);
    }
}
