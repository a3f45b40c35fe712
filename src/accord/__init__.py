"""Accord."""
