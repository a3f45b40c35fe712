"""The HTTP transport: JSON, server-sent events and WebSocket."""
