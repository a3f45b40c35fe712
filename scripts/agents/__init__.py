"""Small agents made with other libraries, for `scripts/inspect_agents.py`; each runs in its own environment."""
