"""The version of the installed package, as users, peers and metrics see it."""


def package_version() -> str:
    """Return the version of the installed distribution."""
    from importlib.metadata import version  # noqa: PLC0415 - loading it takes longer than all of this package

    return version("accord-agents")
