"""Tests of the model APIs, and what their well-known clients send (`clients.json`)."""
