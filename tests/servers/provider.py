"""A real OpenID Connect provider on loopback: discovery, keys, and tokens signed with what the tests generate."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

import jwt
import pytest
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from accord.config import OidcConfig
from accord.errors import ErrorCode, RefusedError
from accord.servers.http.oidc import OidcVerifier
from tests.servers.clock import START, ManualClock

AUDIENCE = "accord"


@cache
def private_key(name: str) -> Any:
    """The key of this name, the same for every test: making one takes a while."""
    match name.split("-", maxsplit=1)[0]:
        case "rsa":
            return rsa.generate_private_key(public_exponent=65537, key_size=2048)
        case "short":
            return rsa.generate_private_key(public_exponent=65537, key_size=1024)  # noqa: S505 - too short on purpose
        case "p256":
            return ec.generate_private_key(ec.SECP256R1())
        case "p384":
            return ec.generate_private_key(ec.SECP384R1())
        case _:
            return ed25519.Ed25519PrivateKey.generate()


def public_jwk(name: str, **more: Any) -> dict[str, Any]:
    """The public half, as the provider tells it."""
    key = private_key(name).public_key()
    if isinstance(key, rsa.RSAPublicKey):
        jwk = RSAAlgorithm.to_jwk(key, as_dict=True)
    elif isinstance(key, ec.EllipticCurvePublicKey):
        jwk = ECAlgorithm.to_jwk(key, as_dict=True)
    else:
        jwk = OKPAlgorithm.to_jwk(key, as_dict=True)
    jwk.pop("key_ops", None)
    return {**jwk, "kid": name, "use": "sig", **more}


class Provider:
    """What it tells, how often it was requests, and whether it answers at all."""

    def __init__(self) -> None:
        self.issuer = ""
        self.keys: list[Any] = [public_jwk("rsa-1"), public_jwk("p256-1")]
        self.discovery: dict[str, Any] = {}
        self.raw_keys: bytes | None = None
        self.status = 200
        self.requests: list[str] = []
        self.was_asked_for_keys = asyncio.Event()
        self.answering = asyncio.Event()
        self.answering.set()

    def token(self, claims: Mapping[str, Any] | None = None, *, key: str = "rsa-1", **options: Any) -> str:
        """A token as the provider makes them; claims that are None are left out."""
        now = int(START.timestamp())
        usual = {"iss": self.issuer, "aud": AUDIENCE, "sub": "ada", "iat": now, "nbf": now, "exp": now + 300}
        kept = {name: value for name, value in {**usual, **(claims or {})}.items() if value is not None}
        headers = {"kid": key, **options.pop("headers", {})}
        return jwt.encode(
            kept,
            options.get("secret", private_key(key)),
            algorithm=options.get("algorithm", "RS256"),
            headers={name: value for name, value in headers.items() if value is not None},
        )

    async def tell_discovery(self, request: web.Request) -> web.Response:
        self.requests.append(request.path)
        jwk = {"issuer": self.issuer, "jwks_uri": f"{self.issuer}/keys", **self.discovery}
        return web.json_response(jwk, status=self.status)

    async def tell_keys(self, request: web.Request) -> web.Response:
        self.requests.append(request.path)
        self.was_asked_for_keys.set()
        await self.answering.wait()
        return web.Response(body=self.raw_keys or json.dumps({"keys": self.keys}).encode(), status=self.status)

    async def send_elsewhere(self, request: web.Request) -> web.Response:
        self.requests.append(request.path)
        raise web.HTTPFound("/keys")


@asynccontextmanager
async def a_provider() -> AsyncGenerator[Provider]:
    """A provider that listens, until the block ends."""
    provider, app = Provider(), web.Application()
    app.router.add_get("/.well-known/openid-configuration", provider.tell_discovery)
    app.router.add_get("/keys", provider.tell_keys)
    app.router.add_get("/elsewhere", provider.send_elsewhere)
    runner = web.AppRunner(app, shutdown_timeout=1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        provider.issuer = f"http://{host}:{port}"
        yield provider
    finally:
        provider.answering.set()
        await runner.cleanup()


def oidc(provider: Provider, clock: ManualClock | None = None, *, timeout_s: float = 5.0, **more: Any) -> OidcVerifier:
    config = OidcConfig(issuer=provider.issuer, audience=AUDIENCE, **more)
    return OidcVerifier(config, clock or ManualClock(), timeout_s=timeout_s)


async def refused(keys: OidcVerifier, token: str, code: ErrorCode = ErrorCode.UNAUTHENTICATED) -> str:
    with pytest.raises(RefusedError) as caught:
        await keys.user_of(token)
    assert caught.value.code is code
    return caught.value.message
