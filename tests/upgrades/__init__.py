"""Stores of every landed schema, opened by the service of today."""
