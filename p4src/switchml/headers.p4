// Headers on the wire, and what the controls hand on to each other.
#ifndef SWITCHML_HEADERS_P4
#define SWITCHML_HEADERS_P4

#include "constants.p4"
#include "hotset/repeat.p4"

header ethernet_t {
    mac_addr_t dst_addr;
    mac_addr_t src_addr;
    bit<16>    ether_type;
}

header ipv4_t {
    bit<4>      version;
    bit<4>      ihl;
    bit<8>      diffserv;
    bit<16>     total_len;
    bit<16>     identification;
    bit<3>      flags;
    bit<13>     frag_offset;
    bit<8>      ttl;
    bit<8>      protocol;
    bit<16>     hdr_checksum;
    ipv4_addr_t src_addr;
    ipv4_addr_t dst_addr;
}

header udp_t {
    bit<16> src_port;
    bit<16> dst_port;
    bit<16> length;
    bit<16> checksum;
}

header switchml_t {
    bit<4>  kind;
    bit<1>  unused;
    bit<3>  size;
    bit<8>  job;            // which all-reduce, modulo 256
    bit<32> chunk;          // the number of the packet
    bit<1>  pool_set;
    bit<15> slot;
}

header exponents_t {
    bit<8> e0;              // signed
    bit<8> e1;
}

header values_t {
#define VALUE(nn, i) bit<32> v##nn;
    REPEAT(VALUE)
#undef VALUE
}

struct headers_t {
    ethernet_t  ethernet;
    ipv4_t      ipv4;
    udp_t       udp;
    switchml_t  switchml;
    exponents_t exponents;
    values_t    values;
}

struct metadata_t {
    bit<16>       receiver;         // number of a worker of any job, from 1 on
    bit<16>       group;            // of all workers of its job
    workers_t     worker;           // its bit
    bit<8>        workers;          // of its job
    bit<1>        check;            // compare the numbers of chunks
    bit<32>       patience;         // us; 0 is endless
    pool_index_t  index;            // slot, then set
    bool          dropped;
    bool          is_new_chunk;     // found by the check
    bool          is_overdue;       // the entry has waited for longer than the patience
    bool          gives_up;         // completes it, without those who are missing
    workers_t     before;           // who had come before
    workers_t     again;            // 0, or the worker's bit if it comes again
    bit<8>        missing;          // how many had not; 0 where none had come
}

#endif
