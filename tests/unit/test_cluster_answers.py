"""A cluster that is not there is told at once, in one line."""

import socket
import time

import pytest

from crowdsweep.errors import BadInput
from crowdsweep.sweep.cluster import connect


def test_an_address_where_nobody_listens() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    began = time.monotonic()
    with pytest.raises(BadInput, match=f"127.0.0.1:{port}.*nobody answers there") as raised:
        connect(f"127.0.0.1:{port}")
    assert time.monotonic() - began < 15
    assert "\n" not in str(raised.value)
