"""Connecting: through the proxy of the environment, and with configured certificates."""

import ipaddress
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from accord.errors import ConnectionFailedError, UsageError
from tests.client.conftest import Drive
from tests.client.driving import EXPECTED, Waits, rest
from tests.client.faulty_server import FaultyServer, as_json, in_turn

TOKEN = "t0ken"  # noqa: S105


def test_the_proxy_that_the_environment_names_is_used(drive: Drive, monkeypatch: pytest.MonkeyPatch):
    with FaultyServer(rest) as proxy:
        monkeypatch.setenv("http_proxy", f"http://me:secret@127.0.0.1:{proxy.port}")
        with drive("http://service.invalid:81", token=TOKEN) as driver:
            assert driver.read(driver.client.stream("Hi"), []) == EXPECTED
    (seen,) = proxy.seen
    assert seen.line == "POST http://service.invalid:81/v1/assist"
    assert seen.headers["proxy-authorization"] == "Basic bWU6c2VjcmV0"
    assert seen.headers["authorization"] == f"Bearer {TOKEN}"


def test_a_proxy_is_passed_by_where_the_environment_says_so(drive: Drive, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with FaultyServer(rest) as server, drive(server.url) as driver:
        assert driver.read(driver.client.stream("Hi"), []) == EXPECTED


def test_a_client_can_do_without_the_proxy_of_the_environment(drive: Drive, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with FaultyServer(rest) as server, drive(server.url, use_proxy=False) as driver:
        assert driver.read(driver.client.stream("Hi"), []) == EXPECTED


def test_a_proxy_of_another_kind_is_a_usage_error(drive: Drive, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("http_proxy", "socks5://127.0.0.1:1")
    with drive("http://service.invalid") as driver, pytest.raises(UsageError, match="http_proxy: expected"):
        driver.run("capabilities")


def test_a_netrc_file_neither_replaces_nor_disturbs_the_token(
    drive: Drive, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password secret\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    with FaultyServer(in_turn([as_json({})])) as server, drive(server.url, token=TOKEN) as driver:
        driver.run("capabilities")
    assert server.seen[0].headers["authorization"] == f"Bearer {TOKEN}"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for loopback that no authority has signed, with its key, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "loopback")])
    now = datetime.now(UTC)
    loopback = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(loopback, critical=False)
        .sign(key, hashes.SHA256())
    )
    file = tmp_path_factory.mktemp("tls") / "loopback.pem"
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file.write_bytes(secret + signed.public_bytes(serialization.Encoding.PEM))
    return file


@pytest.fixture
def tls(certificate: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    return context


def test_a_configured_certificate_is_trusted(drive: Drive, tls: ssl.SSLContext, certificate: Path):
    trusting = ssl.create_default_context(cafile=certificate)
    with FaultyServer(rest, tls) as server, drive(server.url, ssl=trusting) as driver:
        assert driver.read(driver.client.stream("Hi"), []) == EXPECTED


def test_an_unknown_certificate_fails_at_once(drive: Drive, tls: ssl.SSLContext):
    waits = Waits()
    with FaultyServer(rest, tls) as server, drive(server.url, wait=waits) as driver:
        with pytest.raises(ConnectionFailedError, match=r"[Cc]ertificate"):
            driver.read(driver.client.stream("Hi"), [])
        assert waits.seconds_waited == []
    assert server.seen == []


def test_a_token_beside_a_user_in_the_address_is_a_usage_error(drive: Drive):
    with pytest.raises(UsageError, match="no user and password beside a token"), drive("http://a:b@c", token=TOKEN):
        pass


def test_a_user_in_the_address_is_sent(drive: Drive):
    with FaultyServer(in_turn([as_json({})])) as server:
        with drive(f"http://me:secret@127.0.0.1:{server.port}") as driver:
            driver.run("capabilities")
        assert server.seen[0].headers["authorization"] == "Basic bWU6c2VjcmV0"
