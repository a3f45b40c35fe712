"""Tests of markdown that becomes text while it streams."""
