// The arrays of all banks, in control HotlineIngress; bank_07.row_stats is the name of row_stats_07. Each array is declared
// for all banks in one line, since p4c's output has this line again for each of them.
#define DECLARE_REGISTER(nn, array) @name(STRING(bank_##nn.array)) register<bit<32>>(SLOTS) array##_##nn;
#define DECLARE_COUNTER(nn, array, size) @name(STRING(bank_##nn.array)) counter(size, CounterType.packets) array##_##nn;

#ifdef PUBLISHES
#define DECLARE_PUBLISHED_A(nn, i) DECLARE_REGISTER(nn, published_a)
REPEAT(DECLARE_PUBLISHED_A)
#define DECLARE_PUBLISHED_B(nn, i) DECLARE_REGISTER(nn, published_b)
REPEAT(DECLARE_PUBLISHED_B)
#define DECLARE_PUBLISHED_C(nn, i) DECLARE_REGISTER(nn, published_c)
REPEAT(DECLARE_PUBLISHED_C)
#define DECLARE_PUBLISHED_D(nn, i) DECLARE_REGISTER(nn, published_d)
REPEAT(DECLARE_PUBLISHED_D)
#define DECLARE_PENDING_A(nn, i) DECLARE_REGISTER(nn, pending_a)
REPEAT(DECLARE_PENDING_A)
#define DECLARE_PENDING_B(nn, i) DECLARE_REGISTER(nn, pending_b)
REPEAT(DECLARE_PENDING_B)
#define DECLARE_PENDING_C(nn, i) DECLARE_REGISTER(nn, pending_c)
REPEAT(DECLARE_PENDING_C)
#define DECLARE_PENDING_D(nn, i) DECLARE_REGISTER(nn, pending_d)
REPEAT(DECLARE_PENDING_D)
#define VALUE_REGISTERS(nn) published_a_##nn, pending_a_##nn
#define QUAD_REGISTERS(nn) published_a_##nn, published_b_##nn, published_c_##nn, published_d_##nn, \
    pending_a_##nn, pending_b_##nn, pending_c_##nn, pending_d_##nn
#else
#define DECLARE_VALUES_A(nn, i) DECLARE_REGISTER(nn, values_a)
REPEAT(DECLARE_VALUES_A)
#define DECLARE_VALUES_B(nn, i) DECLARE_REGISTER(nn, values_b)
REPEAT(DECLARE_VALUES_B)
#define DECLARE_VALUES_C(nn, i) DECLARE_REGISTER(nn, values_c)
REPEAT(DECLARE_VALUES_C)
#define DECLARE_VALUES_D(nn, i) DECLARE_REGISTER(nn, values_d)
REPEAT(DECLARE_VALUES_D)
#define VALUE_REGISTERS(nn) values_a_##nn
#define QUAD_REGISTERS(nn) values_a_##nn, values_b_##nn, values_c_##nn, values_d_##nn
#endif
#define DECLARE_ROW_STATS(nn, i) DECLARE_COUNTER(nn, row_stats, LANE_EVENTS)
REPEAT(DECLARE_ROW_STATS)
#define DECLARE_PUSHES(nn, i) DECLARE_COUNTER(nn, pushes, SLOTS)    // by slot, as a parameter server counts updates by key
REPEAT(DECLARE_PUSHES)
#define DECLARE_VALUE(nn, i) Value(VALUE_REGISTERS(nn), row_stats_##nn, pushes_##nn, 1 << (i)) value_##nn;
REPEAT(DECLARE_VALUE)
#define DECLARE_QUAD(nn, i) Quad(QUAD_REGISTERS(nn), row_stats_##nn, pushes_##nn, 1 << (i)) quad_##nn;
REPEAT(DECLARE_QUAD)
