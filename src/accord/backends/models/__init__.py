"""Model APIs: how each is spoken, by pure functions, and the one backend that speaks any of them over an upstream."""
