"""OpenAI's two APIs, for OpenAI and every endpoint that is compatible with it."""
