"""The OpenAI APIs that Accord serves: chat completions and responses. Pure translation; see `servers/translation.py`."""
