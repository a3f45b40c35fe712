"""Which proxy the environment names for an endpoint. Looks at the environment, opens nothing."""

from functools import lru_cache
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from accord.backends.failure import Failure
from accord.backends.upstream.port import UpstreamError


@lru_cache(maxsize=256)
def proxy_of(origin: str) -> str | None:
    """The address of the proxy for this origin, such as `https://models.example`, or None; it is looked up once.

    aiohttp's `trust_env` would do this and also send what it finds in a netrc file, in the place of the key.
    """
    parts = urlsplit(origin)
    named = getproxies().get(parts.scheme)
    if not named or proxy_bypass(parts.netloc.rpartition("@")[2]):
        return None
    if urlsplit(named).scheme not in ("http", "https"):
        raise UpstreamError(Failure.UNREACHABLE, f"{parts.scheme}_proxy is not the http or https address of a proxy")
    return named
