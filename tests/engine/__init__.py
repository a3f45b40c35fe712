"""Tests of what is run."""
