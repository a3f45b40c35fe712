"""Tests of what is decided."""
