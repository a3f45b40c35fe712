"""How Python programs call a service: `AsyncClient`, and `Client` for those that block. Knows no server."""

from accord.client.client import AsyncClient
from accord.client.settings import ClientSettings, Options, Payload
from accord.client.stream import Stream
from accord.client.sync import Client, SyncStream

__all__ = ["AsyncClient", "Client", "ClientSettings", "Options", "Payload", "Stream", "SyncStream"]
