"""The messages of the Agent Client Protocol: version 1, and the draft of version 2.

`schema_v1`, `schema_v2` and `methods` are written by `scripts/acp_types.py` from the protocol's schemas. Messages are
read as these demand: unknown members are kept, malformed optional ones count as absent, and `_meta` never becomes an
argument.
"""
