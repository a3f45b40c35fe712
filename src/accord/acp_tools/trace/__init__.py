"""Traces of conversations between an editor and an agent, one JSON object per line.

Pure: `entries` (what is recorded), `summary` (an entry in a few words) and `page` (rows as HTML). With I/O: `writer`
(appends the entries to a file). `accord trace show` reads the file.
"""
