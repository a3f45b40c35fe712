"""Tests of how Accord is started."""
