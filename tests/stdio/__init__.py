"""Tests of talking over pipes."""
