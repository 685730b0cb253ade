#ifndef BANKS_OF_ROWS_P4
#define BANKS_OF_ROWS_P4

// Slots of banks whose row has no hit.
const bit<16> MISS   = 0xffff;      // the row is not in the switch, for this caller
const bit<16> UNUSED = 0xfffe;      // the lane is not live

// Bitmaps of the banks that are the first ones of their rows.
const bit<64> EVERY_BANK           = 0xffffffffffffffff;
const bit<64> EVERY_SECOND_BANK    = 0x5555555555555555;
const bit<64> EVERY_FOURTH_BANK    = 0x1111111111111111;
const bit<64> EVERY_EIGHTH_BANK    = 0x0101010101010101;
const bit<64> EVERY_SIXTEENTH_BANK = 0x0001000100010001;
const bit<64> EVERY_32ND_BANK      = 0x0000000100000001;

// The banks of rows that are twice as long: EACH_BANK_AND_HALF(X) is ... X(03, 01) X(02, 01) X(01, 00), the highest
// number first.
#define HALVES_OF_3_TO_1(X) X(03, 01) X(02, 01) X(01, 00)
#define HALVES_OF_7_TO_4(X) X(07, 03) X(06, 03) X(05, 02) X(04, 02)
#define HALVES_OF_15_TO_8(X) X(15, 07) X(14, 07) X(13, 06) X(12, 06) X(11, 05) X(10, 05) X(09, 04) X(08, 04)
#define HALVES_OF_31_TO_16(X) X(31, 15) X(30, 15) X(29, 14) X(28, 14) X(27, 13) X(26, 13) X(25, 12) X(24, 12) \
    X(23, 11) X(22, 11) X(21, 10) X(20, 10) X(19, 09) X(18, 09) X(17, 08) X(16, 08)
#define HALVES_OF_63_TO_32(X) X(63, 31) X(62, 31) X(61, 30) X(60, 30) X(59, 29) X(58, 29) X(57, 28) X(56, 28) \
    X(55, 27) X(54, 27) X(53, 26) X(52, 26) X(51, 25) X(50, 25) X(49, 24) X(48, 24) \
    X(47, 23) X(46, 23) X(45, 22) X(44, 22) X(43, 21) X(42, 21) X(41, 20) X(40, 20) \
    X(39, 19) X(38, 19) X(37, 18) X(36, 18) X(35, 17) X(34, 17) X(33, 16) X(32, 16)
#if LANES == 4
#define EACH_BANK_AND_HALF(X) HALVES_OF_3_TO_1(X)
#elif LANES == 8
#define EACH_BANK_AND_HALF(X) HALVES_OF_7_TO_4(X) HALVES_OF_3_TO_1(X)
#elif LANES == 16
#define EACH_BANK_AND_HALF(X) HALVES_OF_15_TO_8(X) HALVES_OF_7_TO_4(X) HALVES_OF_3_TO_1(X)
#elif LANES == 32
#define EACH_BANK_AND_HALF(X) HALVES_OF_31_TO_16(X) HALVES_OF_15_TO_8(X) HALVES_OF_7_TO_4(X) HALVES_OF_3_TO_1(X)
#elif LANES == 64
#define EACH_BANK_AND_HALF(X) HALVES_OF_63_TO_32(X) HALVES_OF_31_TO_16(X) HALVES_OF_15_TO_8(X) HALVES_OF_7_TO_4(X) \
    HALVES_OF_3_TO_1(X)
#endif

#endif
