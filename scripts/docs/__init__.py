"""What is made from the code under docs/: `make docs` writes it, tests/scripts/test_docs.py compares it."""
