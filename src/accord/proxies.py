"""Which proxy the environment names for an address. Looks at the environment, opens nothing, knows no library of HTTP.

aiohttp's `trust_env` would do this and also send what it finds in a netrc file, in the place of a key or a token.
"""

from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from accord.errors import UsageError


def environment_proxy(address: str) -> str | None:
    """The proxy for this address, if one is named; raises `UsageError` for what is no address of a proxy."""
    parts = urlsplit(address)
    named = getproxies().get(parts.scheme)
    if not named or proxy_bypass(parts.netloc.rpartition("@")[2]):
        return None
    if urlsplit(named).scheme not in ("http", "https"):
        raise UsageError(f"{parts.scheme}_proxy: expected the http or https address of a proxy")
    return named
