"""Small agents made with libraries of others, for `scripts/inspect_agents.py`; run in environments of their own."""
