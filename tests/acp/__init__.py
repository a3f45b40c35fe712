"""Tests of the ACP messages."""
