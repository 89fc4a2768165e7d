"""Pure functions: records in, plan out. No I/O, no clock, no globals; time is an argument, memory of the past a state."""
