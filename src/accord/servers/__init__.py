"""Servers: transports that turn bytes into requests and packets into bytes. Decisions are made in the engine.

No transport imports another one, a backend or a particular store; what they share is in `service.py`.
"""
