"""Tests of judging what an agent did."""
