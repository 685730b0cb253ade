// Written from the arms of `DESIGN` in examples.tutorial.sum before the program is compiled.
const bit<16> ARM_SUM_OFF = 61;
const bit<16> ARM_SUM = 51;
