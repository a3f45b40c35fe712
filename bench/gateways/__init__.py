"""Gateways measured side by side (`make bench-gateways`) and compared by what they do (`make demo-gateways`)."""
