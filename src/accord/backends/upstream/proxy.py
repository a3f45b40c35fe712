"""The proxy for an endpoint, looked up once; what is wrong with it is told as any failure on the way is."""

from functools import lru_cache

from accord.backends.failure import Failure
from accord.backends.upstream.port import UpstreamError
from accord.errors import UsageError
from accord.proxies import environment_proxy


@lru_cache(maxsize=256)
def proxy_of(origin: str) -> str | None:
    """The address of the proxy for this origin, such as `https://models.example`, or None."""
    try:
        return environment_proxy(origin)
    except UsageError as error:
        raise UpstreamError(Failure.UNREACHABLE, error.message) from None
