"""Tests of the ways to a model and of what is known about models."""
