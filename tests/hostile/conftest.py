"""Collects the attacks only where they are asked for: they take the whole machine for a minute."""

import os

collect_ignore = [] if os.environ.get("ACCORD_HOSTILE") else ["test_hostile.py"]
