"""These tests take minutes and are run by `make test-faults`, not by `make test`."""

import os

collect_ignore_glob = [] if os.environ.get("ACCORD_FAULTS") else ["test_*.py"]
