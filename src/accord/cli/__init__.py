"""How Accord is started: the `accord` command. The only place that picks concrete parts."""

from accord.cli.app import main

__all__ = ["main"]
