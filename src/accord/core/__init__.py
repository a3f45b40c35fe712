"""What is decided: pure functions, one file a verb. No I/O, no clock, no dice."""
