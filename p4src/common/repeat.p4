// The preprocessor repeats code that exists once for each lane: REPEAT(X) is X(00, 0) X(01, 1) ... up to LANES.
//
// P4 has `for` loops, which p4c for BMv2 drops from `apply` (1.2.5.16), and no arrays but stacks of headers. What exists
// once for each lane are instances with names of their own (lookup_07, values_a_07), by which controllers address them,
// and variables (slot_07).
#ifndef REPEAT_P4
#define REPEAT_P4

// STRING(a.b) is "a.b", after the replacement of macros in a.b.
#define STRING_OF(text) #text
#define STRING(text) STRING_OF(text)

#define LANES_0_TO_3(X) X(00, 0) X(01, 1) X(02, 2) X(03, 3)
#define LANES_0_TO_7(X) LANES_0_TO_3(X) X(04, 4) X(05, 5) X(06, 6) X(07, 7)
#define LANES_8_TO_15(X) X(08, 8) X(09, 9) X(10, 10) X(11, 11) X(12, 12) X(13, 13) X(14, 14) X(15, 15)
#define LANES_16_TO_31(X) X(16, 16) X(17, 17) X(18, 18) X(19, 19) X(20, 20) X(21, 21) X(22, 22) X(23, 23) \
    X(24, 24) X(25, 25) X(26, 26) X(27, 27) X(28, 28) X(29, 29) X(30, 30) X(31, 31)
#define LANES_32_TO_61(X) X(32, 32) X(33, 33) X(34, 34) X(35, 35) X(36, 36) X(37, 37) X(38, 38) X(39, 39) \
    X(40, 40) X(41, 41) X(42, 42) X(43, 43) X(44, 44) X(45, 45) X(46, 46) X(47, 47) \
    X(48, 48) X(49, 49) X(50, 50) X(51, 51) X(52, 52) X(53, 53) X(54, 54) X(55, 55) \
    X(56, 56) X(57, 57) X(58, 58) X(59, 59) X(60, 60) X(61, 61)

#if LANES == 4
#define REPEAT(X) LANES_0_TO_3(X)
#elif LANES == 8
#define REPEAT(X) LANES_0_TO_7(X)
#elif LANES == 16
#define REPEAT(X) LANES_0_TO_7(X) LANES_8_TO_15(X)
#elif LANES == 32
#define REPEAT(X) LANES_0_TO_7(X) LANES_8_TO_15(X) LANES_16_TO_31(X)
#elif LANES == 62
#define REPEAT(X) LANES_0_TO_7(X) LANES_8_TO_15(X) LANES_16_TO_31(X) LANES_32_TO_61(X)
#elif LANES == 64
#define REPEAT(X) LANES_0_TO_7(X) LANES_8_TO_15(X) LANES_16_TO_31(X) LANES_32_TO_61(X) X(62, 62) X(63, 63)
#else
#error "LANES must be 4, 8, 16, 32, 62 or 64"
#endif

#endif
