"""Tests of `accord.apis`."""
