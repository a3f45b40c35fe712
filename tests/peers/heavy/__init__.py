"""Real agents and clients that take a while to install: `make test-peers` does, and runs what is here."""
