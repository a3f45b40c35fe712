"""Make, read and use the Ed25519 keys that sign receipts; needs `cryptography`, which the extra `signing` installs.

A signature proves that the holder of the key wrote a chain of receipts. Without one, anyone who can write to the store
can replace the chain by another valid one.
"""

import os
from base64 import b64decode, b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from accord.config import LoadedConfig
from accord.config.trust import PRIVATE_FILE
from accord.core.receipt import Sign, VerifySignature
from accord.errors import UsageError
from accord.extras import naming_extra

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

EXPECTED: Final = "expected an Ed25519 key as PEM, as `accord receipts keygen` writes it"


def make_key(file: Path) -> Path:
    """Write a new private key, readable by its owner only, and its public key beside it; return the public file."""
    with naming_extra("Signing receipts"):
        from cryptography.hazmat.primitives import serialization as pem  # noqa: PLC0415 - an extra
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415
    key, public_file = Ed25519PrivateKey.generate(), file.with_name(file.name + ".pub")
    private = key.private_bytes(pem.Encoding.PEM, pem.PrivateFormat.PKCS8, pem.NoEncryption())
    public = key.public_key().public_bytes(pem.Encoding.PEM, pem.PublicFormat.SubjectPublicKeyInfo)
    for path, content, mode in ((file, private, PRIVATE_FILE), (public_file, public, 0o644)):
        try:
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as out:
                out.write(content)
        except FileExistsError:
            raise UsageError(f"{path}: exists already; choose another name, since keys are never overwritten") from None
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}") from error
    return public_file


def make_signer(loaded: LoadedConfig) -> Sign | None:
    """Return the function that signs receipts with the configured key, or None if there is no key."""
    key = _signing_key(loaded)
    return None if key is None else lambda data: b64encode(key.sign(data)).decode()


def make_own_signature_check(loaded: LoadedConfig) -> VerifySignature | None:
    """Return the function that checks signatures of the configured key, or None if there is no key."""
    key = _signing_key(loaded)
    return None if key is None else _check_against([key.public_key()])


def _signing_key(loaded: LoadedConfig) -> "Ed25519PrivateKey | None":
    if loaded.config.signing_key is None:
        return None
    file = loaded.path_of(loaded.config.signing_key)
    with naming_extra("signing_key"):
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415 - an extra
        from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415
    try:
        key = load_pem_private_key(_read(file), password=None)
    except (ValueError, TypeError) as error:
        raise UsageError(f"{file}: {EXPECTED}") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise UsageError(f"{file}: {EXPECTED}")
    return key


def make_signature_check(files: Sequence[str]) -> VerifySignature | None:
    """Return the function that checks signatures against any of these public keys, or None if there is no key."""
    if not files:
        return None
    with naming_extra("--public-key"):
        return _check_against([_public_key(Path(file)) for file in files])


def _check_against(keys: "Sequence[Ed25519PublicKey]") -> VerifySignature:
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 - an extra

    def verify_signature(data: bytes, signature: str) -> bool:
        try:
            raw = b64decode(signature, validate=True)
        except ValueError:
            return False
        for key in keys:
            try:
                key.verify(raw, data)
            except InvalidSignature:
                continue
            return True
        return False

    return verify_signature


def _public_key(file: Path) -> "Ed25519PublicKey":
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # noqa: PLC0415 - an extra
    from cryptography.hazmat.primitives.serialization import load_pem_public_key  # noqa: PLC0415

    try:
        key = load_pem_public_key(_read(file))
    except (ValueError, TypeError) as error:
        raise UsageError(f"{file}: {EXPECTED}") from error
    if not isinstance(key, Ed25519PublicKey):
        raise UsageError(f"{file}: {EXPECTED}")
    return key


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}") from error
