"""Traces of conversations between an editor and an agent, one JSON object per line.

Pure: `summary` (an entry in a few words) and `page` (rows as HTML). With I/O: `writer` (builds the entries and appends
them to a file). `accord trace show` reads the file.
"""
