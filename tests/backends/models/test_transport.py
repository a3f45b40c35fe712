"""The transports to an endpoint: proxies, certificates, and the engine's fallback when it fails."""

import asyncio
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import trustme

from accord.apis.failure import EndpointError, Failure
from accord.backends.model import ModelBackend
from accord.backends.upstream_aiohttp import find_target
from accord.run import Run
from accord.wire.packet import StreamPacket
from accord.wire.work import TextPiece
from tests.backends.models.proxy_server import ForwardingProxy
from tests.backends.models.toy_server import KEY, STREAMED, TEXT, model, pieces_of, refusal
from tests.client.faulty_server import STREAM_HEAD, Do, FaultyServer, chunk, event, in_turn
from tests.run.playing import asking, collected, engine, relay, said, within

PROXY_WORDS = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for word in PROXY_WORDS:
        monkeypatch.delenv(word, raising=False)
        monkeypatch.delenv(word.upper(), raising=False)
    find_target.cache_clear()
    yield
    find_target.cache_clear()


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def serving_as(name: str, authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    cast("Any", authority.issue_cert(name)).configure_cert(context)
    return context


@pytest.fixture
def serving(authority: trustme.CA) -> ssl.SSLContext:
    return serving_as("127.0.0.1", authority)


@pytest.fixture
def trusting(authority: trustme.CA, tmp_path: Path) -> ssl.SSLContext:
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    return ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))


def text_from(backend: ModelBackend) -> str:
    async def asked() -> str:
        try:
            return "".join(piece.text for piece in await pieces_of(backend) if isinstance(piece, TextPiece))
        finally:
            await backend.aclose()

    return within(asked)


def failure_of(backend: ModelBackend) -> Failure:
    with pytest.raises(EndpointError) as caught:
        text_from(backend)
    return caught.value.report.failure


def test_a_certificate_of_a_configured_authority_is_trusted(
    transport: str, serving: ssl.SSLContext, trusting: ssl.SSLContext
):
    with FaultyServer(in_turn(STREAMED), tls=serving) as server:
        assert text_from(model(server.url, transport, tls=trusting)) == TEXT


def test_an_untrusted_certificate_is_refused_once_and_nothing_is_sent(transport: str, serving: ssl.SSLContext):
    with FaultyServer(in_turn(STREAMED), tls=serving) as server:
        assert failure_of(model(server.url, transport)) is Failure.UNTRUSTED
    assert server.seen == []


def test_a_certificate_for_another_name_is_refused(transport: str, authority: trustme.CA, trusting: ssl.SSLContext):
    with FaultyServer(in_turn(STREAMED), tls=serving_as("models.example", authority)) as server:
        assert failure_of(model(server.url, transport, tls=trusting)) is Failure.UNTRUSTED
    assert server.seen == []


def test_the_environments_proxy_is_used(transport: str, monkeypatch: pytest.MonkeyPatch):
    with FaultyServer(in_turn(STREAMED)) as server, ForwardingProxy() as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        assert text_from(model(server.url, transport)) == TEXT
    assert proxy.requested == [f"POST {server.url}/talk"]


def test_tls_uses_a_tunnel_and_the_proxy_sees_no_key(
    transport: str, monkeypatch: pytest.MonkeyPatch, serving: ssl.SSLContext, trusting: ssl.SSLContext
):
    with FaultyServer(in_turn(STREAMED), tls=serving) as server, ForwardingProxy() as proxy:
        monkeypatch.setenv("https_proxy", proxy.url)
        assert text_from(model(server.url, transport, tls=trusting)) == TEXT
    assert proxy.requested == [f"CONNECT 127.0.0.1:{server.port}"]
    assert KEY.encode() not in proxy.passed
    assert server.seen[0].headers["authorization"] == f"Bearer {KEY}"


def test_no_proxy_is_respected(transport: str, monkeypatch: pytest.MonkeyPatch):
    with FaultyServer(in_turn(STREAMED)) as server, ForwardingProxy() as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        assert text_from(model(server.url, transport)) == TEXT
    assert proxy.requested == []


def test_a_missing_or_wrong_proxy_is_unreachable(transport: str, monkeypatch: pytest.MonkeyPatch):
    with FaultyServer(in_turn(STREAMED)) as server:
        for named in ("http://127.0.0.1:9", "socks5://127.0.0.1:9"):
            monkeypatch.setenv("http_proxy", named)
            find_target.cache_clear()
            assert failure_of(model(server.url, transport)) is Failure.UNREACHABLE
    assert server.seen == []


def test_a_netrc_file_does_not_replace_the_key(transport: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login somebody password else\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    with FaultyServer(in_turn(STREAMED)) as server:
        assert text_from(model(server.url, transport)) == TEXT
    assert server.seen[0].headers["authorization"] == f"Bearer {KEY}"


def fallen_back(transport: str, *servers: FaultyServer) -> tuple[Run, list[StreamPacket]]:
    """A turn on two backends, the first of them preferred."""
    backends = [
        model(server.url, transport, name=name) for server, name in zip(servers, ("first", "second"), strict=True)
    ]
    turn = engine(relay, *backends).begin(asking())

    async def run() -> list[StreamPacket]:
        packets = await collected(turn)
        for backend in backends:
            await backend.aclose()
        return packets

    return turn, within(run)


def test_the_engine_falls_back_when_the_first_endpoint_fails(transport: str):
    with FaultyServer(in_turn(refusal(500))) as failing, FaultyServer(in_turn(STREAMED)) as well:
        turn, packets = fallen_back(transport, failing, well)
    assert said(packets) == TEXT
    assert (len(failing.seen), len(well.seen)) == (1, 1)  # it is not sent again while another backend is left
    assert [(name, error.details["failure"]) for name, error in turn.work[0].failures] == [("first", "failed")]
    assert turn.work[0].backend == "second"


def test_the_engine_does_not_fall_back_after_the_first_piece(transport: str):
    begun = [STREAM_HEAD, chunk(event(1, '{"text": "Hello "}')), Do.CLOSE]
    with FaultyServer(in_turn(begun)) as failing, FaultyServer(in_turn(STREAMED)) as well:
        _, packets = fallen_back(transport, failing, well)
    assert said(packets) == "Hello "
    assert (len(failing.seen), well.seen) == (1, [])


def test_cancelling_a_turn_closes_the_connection_to_the_endpoint(transport: str):
    async def cancelled(server: FaultyServer) -> bool:
        backend = model(server.url, transport)
        turn = engine(relay, backend).begin(asking())
        reading = asyncio.create_task(collected(turn))
        assert await asyncio.to_thread(server.held.wait, 10)
        reading.cancel()
        await asyncio.wait([reading], timeout=10)
        left = await asyncio.to_thread(server.left.wait, 2)
        await backend.aclose()
        return left

    with FaultyServer(in_turn([STREAM_HEAD, chunk(event(1, '{"text": "Hello "}')), Do.HOLD])) as server:
        assert within(lambda: cancelled(server))
