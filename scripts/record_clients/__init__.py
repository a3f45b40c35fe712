"""Runs well-known model clients against a scripted model server and writes down what they send.

`make record-clients` writes `tests/servers/model_apis/clients.json`. The server (`server.py`) and its answers are also
the model endpoints of the tests that run the same clients through `accord serve`.
"""
