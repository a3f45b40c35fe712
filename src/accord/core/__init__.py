"""The decisions, as pure functions: no I/O, no clock, no randomness."""
