"""Addresses at which the service cannot listen: the reason, and what to do about it."""

import re
import socket

import pytest

from accord.errors import UsageError
from accord.servers.http.serve import listen_at


@pytest.mark.parametrize("host", ["192.0.2.1", "no.invalid"])
def test_a_host_that_is_not_this_machine_is_refused_with_a_remedy(host: str):
    with pytest.raises(UsageError) as refused:
        listen_at(host, 0)
    # What the resolver says of an unknown name depends on the machine.
    assert re.fullmatch(
        rf"Cannot listen at {host} port 0: [A-Z][a-z ]+; give a --host that is an address of this machine",
        refused.value.message,
    )


def test_a_port_that_is_taken_is_refused_with_a_remedy():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError) as refused:
            listen_at("127.0.0.1", port)
    assert refused.value.message == (
        f"Cannot listen at 127.0.0.1 port {port}: Address already in use; "
        "stop the program that listens there, or give another --port (0 takes any free one)"
    )
