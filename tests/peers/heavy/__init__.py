"""Tests with agents and clients that take a while to install: `make test-peers` installs them and runs these."""
