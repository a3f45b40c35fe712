"""Tests of both clients against a server that misbehaves as each test requires."""
