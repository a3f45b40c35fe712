"""The Python client of a service: `AsyncClient`, and `Client`, which blocks. It knows no server code."""

from accord.extras import naming_extra

with naming_extra("accord.client"):
    from accord.client.client import AsyncClient
    from accord.client.settings import ClientSettings, Options, Payload
    from accord.client.stream import Stream
    from accord.client.sync import Client, SyncStream

__all__ = ["AsyncClient", "Client", "ClientSettings", "Options", "Payload", "Stream", "SyncStream"]
