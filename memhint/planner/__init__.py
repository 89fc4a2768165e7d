"""Pure functions: records in, plan out. Time is an argument and the past a state; no I/O, no clock, no globals."""
