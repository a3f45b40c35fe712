"""The OpenAI APIs that Accord serves, chat completions and responses: pure translation (`servers/translation.py`)."""
