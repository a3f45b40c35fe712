"""Standing in for what a backend cannot do, for real (ABP; decisions 12 to 14). No I/O: a backend is asked elsewhere.

Read `shape.py` first, then `drive.py`. `engine.py` is ABP's own interface; one file for each emulation beside it.
"""
