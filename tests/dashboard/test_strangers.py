"""Pages of strangers, which a reader's browser shows beside the dashboard, cannot read it."""

from __future__ import annotations

import socket

SECONDS = 600
HANDSHAKE = (
    "GET /_stcore/stream HTTP/1.1\r\nHost: {host}\r\n{origin}Upgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)


def status(port: int, host: str, origin: str = "") -> int:
    """The status of the request for the stream of a page's contents: 101 if it is opened."""
    with socket.create_connection(("127.0.0.1", port), SECONDS) as link:
        header = f"Origin: {origin}\r\n" if origin else ""
        link.sendall(HANDSHAKE.format(host=host, origin=header).encode())
        return int(link.recv(100).split()[1])


def test_the_dashboard_answers_to_its_own_names_and_pages(address: str) -> None:
    port = int(address.rpartition(":")[2])
    for host in (f"127.0.0.1:{port}", f"localhost:{port}", f"[::1]:{port}", "board.example"):
        assert status(port, host, f"http://{host}") == 101
    for host in ("rebound.example", f"localhost.rebound.example:{port}", "board.example.org"):
        assert status(port, host, f"http://{host}") == 403
        assert status(port, host) == 403
    for origin in ("http://rebound.example", f"http://localhost.rebound.example:{port}", "null"):
        assert status(port, f"127.0.0.1:{port}", origin) == 403
