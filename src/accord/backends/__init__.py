"""Backends that answer work orders, and the evidence of what each supports."""
