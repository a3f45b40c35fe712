"""The Anthropic API that Accord serves, messages: pure translation (`servers/translation.py`)."""
