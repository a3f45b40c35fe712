"""Tests of what connects the processes of one service: one contract for all channels, and each of them."""
