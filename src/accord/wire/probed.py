"""What an endpoint was seen to do, kept in a file beside the configuration by `accord backends probe --write`."""

from accord.wire.manifest import CapabilityManifest
from accord.wire.message import Message


class Probed(Message, frozen=True):
    """What was found of one model, and on which day."""

    backend: str
    model: str | None = None
    date: str
    found: CapabilityManifest
