// As REPEAT, with the next lane: CHAIN_TO_3(X) is X(00, 0, 01) ... X(03, 3, 04).
#ifndef CHAIN_P4
#define CHAIN_P4

#define CHAIN_TO_3(X) X(00, 0, 01) X(01, 1, 02) X(02, 2, 03) X(03, 3, 04)
#define CHAIN_TO_7(X) CHAIN_TO_3(X) X(04, 4, 05) X(05, 5, 06) X(06, 6, 07) X(07, 7, 08)
#define CHAIN_TO_15(X) CHAIN_TO_7(X) X(08, 8, 09) X(09, 9, 10) X(10, 10, 11) X(11, 11, 12) \
    X(12, 12, 13) X(13, 13, 14) X(14, 14, 15) X(15, 15, 16)
#define CHAIN_TO_31(X) CHAIN_TO_15(X) X(16, 16, 17) X(17, 17, 18) X(18, 18, 19) X(19, 19, 20) X(20, 20, 21) \
    X(21, 21, 22) X(22, 22, 23) X(23, 23, 24) X(24, 24, 25) X(25, 25, 26) X(26, 26, 27) X(27, 27, 28) \
    X(28, 28, 29) X(29, 29, 30) X(30, 30, 31) X(31, 31, 32)

#endif
