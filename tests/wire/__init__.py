"""Tests of the message models."""
