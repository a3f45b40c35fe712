"""Codecs: one for each model API, both directions beside each other. `codec.py` is their interface."""
