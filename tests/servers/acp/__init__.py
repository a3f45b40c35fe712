"""Tests of the ACP door over real pipes."""
