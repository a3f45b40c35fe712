"""The clients, against a server that misbehaves as it is told."""
