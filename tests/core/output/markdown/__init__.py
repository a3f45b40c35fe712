"""Tests of the streaming markdown stripper."""
