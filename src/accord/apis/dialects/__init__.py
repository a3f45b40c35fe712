"""Servers whose API is like another one but for some names: one file for each, whose name is the kind of its backends.

`CODEC` of a file is the class of the API which it is like, with a `dialect` of its own. The names of fields, the
ends of an answer, the names of usage, and the column of the table of fields follow from that.
"""
