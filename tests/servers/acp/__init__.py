"""Tests of the ACP server, most of them over real pipes."""
