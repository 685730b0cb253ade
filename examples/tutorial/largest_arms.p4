// Written from the arms of `DESIGN` in examples.tutorial.largest before the program is compiled.
const bit<16> ARM_LARGEST_OFF = 63;
const bit<16> ARM_LARGEST = 53;
