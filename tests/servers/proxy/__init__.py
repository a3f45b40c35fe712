"""Tests of the proxy over real pipes."""
