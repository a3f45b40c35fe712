"""The page: its files over HTTP, and what it needs of the service."""
