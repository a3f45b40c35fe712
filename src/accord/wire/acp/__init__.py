"""The messages of the Agent Client Protocol: version 1, and the version 2 draft where it differs (`Draft…`).

They are read as the protocol demands: unknown fields are kept, malformed optional fields count as absent, and `_meta`
never becomes an argument.
"""
