"""Tests of the APIs that models are spoken to by."""
