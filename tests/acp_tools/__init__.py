"""Tests of the tools for ACP agents."""
