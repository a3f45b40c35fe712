"""Tests of traces: what is recorded, and how it is shown."""
