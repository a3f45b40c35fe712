"""Tests of the Messages API that Accord serves."""
