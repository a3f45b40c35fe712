"""Tests of what is decided between an editor and an agent."""
