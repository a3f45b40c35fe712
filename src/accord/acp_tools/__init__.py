"""Tools for ACP agents: inspect one, stand between it and an editor, view what was recorded."""
