"""What each kind of user does first, with the installed wheel: real commands, processes, sockets and pipes."""
