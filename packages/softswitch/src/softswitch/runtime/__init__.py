"""The functions of BMv2's Thrift server over gRPC: the service that commands use."""
