"""How Python programs call a service."""
