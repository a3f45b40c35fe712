"""What ACP peers say to each other: protocol version 1, and the version 2 draft where it differs.

Version 2's own shapes are called `Draft…`. Everything is read as the protocol asks: unknown fields are kept,
malformed optional fields count as absent, and `_meta` never becomes an argument.
"""
