"""Attacks on a real service, from a process of their own. Run by `make test-hostile`, never by `make test`."""
