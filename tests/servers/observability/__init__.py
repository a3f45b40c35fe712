"""Those who watch a service."""
