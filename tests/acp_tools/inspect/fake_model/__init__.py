"""The fake model: real SDKs as its clients, its script, its choice of tools, and what it concludes about content."""
