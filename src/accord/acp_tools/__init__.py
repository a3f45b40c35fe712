"""Tools for ACP agents: inspect one, put a proxy between it and an editor, show what the proxy recorded."""
