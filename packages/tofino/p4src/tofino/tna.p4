// What differs between the two architectures that the program is compiled for. This file is for the chip; v1model.p4
// has the same macros for the twin.
#include <core.p4>
#if __TARGET_TOFINO__ == 2
#include <t2na.p4>
#else
#include <tna.p4>
#endif

// Local port 64 of pipe 0 on Tofino 1, and 0 on Tofino 2, lead to the switch's CPU.
#if __TARGET_TOFINO__ == 2
#define SWITCH_CPU_PORT 0
#else
#define SWITCH_CPU_PORT 64
#endif

// What precedes a frame to and from the CPU, as hotset/packet_io.p4 has it for P4Runtime. A port is moved between
// containers as it is, so it has the place that it has in the chip's metadata.
#define PACKET_IO_P4
header packet_out_t {
    bit<6> _pad;
    bit<1> submit_to_ingress;
    bit<9> egress_port;
}

header packet_in_t {
    bit<7> _pad;
    bit<9> ingress_port;
}

// A register whose cells are two words of 32 bits, and what a packet does to the one cell that it reaches. What stands
// between BEGIN and END reads and writes `cell`, and sets `result`.
#define PAIR_REGISTER(CELL, name, size) Register<CELL, bit<32>>(size) name;
#define BEGIN_PAIR_ACTION(CELL, name, register_name, RESULT) \
    RegisterAction<CELL, bit<32>, RESULT>(register_name) name = { \
        void apply(inout CELL cell, out RESULT result) {
#define END_PAIR_ACTION(FIRST, SECOND, register_name) \
        } \
    };

// The same for a register of one word.
#define WORD_REGISTER(WORD, name, size) Register<WORD, bit<32>>(size) name;
#define BEGIN_WORD_ACTION(WORD, name, register_name) \
    RegisterAction<WORD, bit<32>, WORD>(register_name) name = { \
        void apply(inout WORD cell, out WORD result) {
#define END_WORD_ACTION(register_name) \
        } \
    };

#define EXECUTE(target, name, index) target = name.execute(index)

// Gathers bits of many containers in one stage, by the hash unit's identity. JOIN stands between the fields,
// and GROUP around some of them.
#define GATHERER(WORD, name) Hash<WORD>(HashAlgorithm_t.IDENTITY) name;
#define GATHER(target, name, ...) target = name.get({ __VA_ARGS__ })
#define JOIN ,
#define GROUP(...) __VA_ARGS__

#define PACKET_COUNTER(name, size) Counter<bit<32>, bit<8>>(size, CounterType_t.PACKETS) name;
#define COUNT(name, index) name.count((bit<8>)(bit<32>)(index))

#define LARGER(a, b) max(a, b)
