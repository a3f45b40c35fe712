"""`accord chat`: talk to an agent in the terminal, in this process or at a service.

`command` (options) → `session` (prompts and commands) → `turn` (one turn, Ctrl-C) → `connection` (the client's thread);
packets are shown by `screen` or `plain`. An agent in this process is served as `accord serve` does it, so that there is
one code path for both.
"""

from accord.cli.chat.command import chat_command

__all__ = ["chat_command"]
