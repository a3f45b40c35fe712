"""Tests of the content check."""
