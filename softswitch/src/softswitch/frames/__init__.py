"""Frames from and to other processes without interfaces or privileges, as BMv2's device managers have it.

`ports` is the switch's datapath for such frames, with a transport for each of BMv2's options: `grpc_stream`
(--dp-grpc-server-addr), `nanomsg` (--packet-in) and `pcap_files` (--use-files). `dataplane` has the messages
of p4.bm.DataplaneInterface.
"""
