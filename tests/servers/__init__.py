"""Tests of the servers, over every transport."""
