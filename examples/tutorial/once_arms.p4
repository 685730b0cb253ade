// Written from the arms of `DESIGN` in examples.tutorial.once before the program is compiled.
const bit<16> ARM_ONCE_OFF = 62;
const bit<16> ARM_ONCE = 52;
