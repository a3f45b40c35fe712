"""The one place that picks concrete parts and wires them together."""
