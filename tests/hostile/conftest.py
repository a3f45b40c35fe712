"""Collects the attacks only on request: they take the whole machine for a minute."""

import os

collect_ignore = [] if os.environ.get("ACCORD_HOSTILE") else ["test_hostile.py", "test_unasked.py"]
