"""Tests of traces: the recorded entries, and the page."""
