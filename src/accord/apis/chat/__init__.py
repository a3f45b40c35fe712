"""The chat completions API, of OpenAI and compatible servers."""
