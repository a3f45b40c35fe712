"""Tests of the ACP backend against agents that are real programs."""
