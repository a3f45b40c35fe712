"""Tests of the proxy between an editor and an agent."""
