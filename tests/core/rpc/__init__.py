"""Tests of JSON-RPC on lines."""
