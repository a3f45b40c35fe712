"""Tests of backends and of model facts."""
