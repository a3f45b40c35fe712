"""Tests with the clients and agents of other projects."""
