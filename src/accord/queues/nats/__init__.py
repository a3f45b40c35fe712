"""NATS: a queue of turns and the packets of running turns in JetStream, messages between processes on plain subjects.

Needs the extra `accord-agents[nats]`. The subjects, streams and headers are described in docs/asyncapi.yaml.
"""
