"""Change the source in small ways and see whether the tests notice: `make test-mutants`."""
