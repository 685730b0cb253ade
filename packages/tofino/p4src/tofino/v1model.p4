// The macros of tna.p4 for v1model: the twin, which softswitch and BMv2 run.
#include <core.p4>
#include <v1model.p4>

#define SWITCH_CPU_PORT CPU_PORT

#define PAIR_REGISTER(CELL, name, size) register<bit<64>>(size) name;
#define BEGIN_PAIR_ACTION(CELL, name, register_name, RESULT) \
    action name(out RESULT result, in bit<32> index) { \
        bit<64> words; \
        register_name.read(words, index); \
        CELL cell = { words[63:32], words[31:0] };
#define END_PAIR_ACTION(FIRST, SECOND, register_name) \
        register_name.write(index, cell.FIRST ++ cell.SECOND); \
    }

#define WORD_REGISTER(WORD, name, size) register<WORD>(size) name;
#define BEGIN_WORD_ACTION(WORD, name, register_name) \
    action name(out WORD result, in bit<32> index) { \
        WORD cell; \
        register_name.read(cell, index);
#define END_WORD_ACTION(register_name) \
        register_name.write(index, cell); \
    }

#define EXECUTE(target, name, index) name(target, index)

#define GATHERER(WORD, name)
#define GATHER(target, name, ...) target = __VA_ARGS__
#define JOIN ++
#define GROUP(...) (__VA_ARGS__)

#define PACKET_COUNTER(name, size) counter(size, CounterType.packets) name;
#define COUNT(name, index) name.count((bit<32>)(index))

#define LARGER(a, b) ((a) > (b) ? (a) : (b))
