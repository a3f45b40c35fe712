"""Emulation of capabilities that a backend lacks (ABP). No I/O: the engine talks to backends.

Read `base.py` first (what an emulation is), then `run.py` (how a turn uses several of them). `engine.py` is ABP's own
interface, `choose.py` maps its strategies to the emulations, and each of the other files is one or two emulations.
"""
