"""What is remembered: one schema, one set of statements, several places to keep it. No store knows the engine.

`sqlite.py` is one file on one machine, `postgres.py` is for more than one, `memory.py` forgets. All of them keep the
contract of `ports.SessionStore`, and one suite of tests holds them to it.
"""
