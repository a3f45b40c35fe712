"""The Anthropic API that Accord serves: messages. Pure translation; see `servers/translation.py`."""
