"""Access to a server: the names by which it is reached, pages that may call it, and a token.

A stranger's page can reach a server on its visitor's machine: directly, or by a name that the stranger points at this
machine (DNS rebinding). Then the headers Host and Origin have foreign names.
"""

import hmac
import ipaddress
import os
import re
import secrets
import socket
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

TOKEN_VARIABLE = "PRMCAL_SERVER_TOKEN"
"""The environment variable with the token of the server."""
# More than a name and a port is no address of a server, and libraries do not agree which part of it is the name.
_ADDRESS = re.compile(r"(?:[a-z][a-z0-9+.-]*:)?//(\[[0-9a-f:.]+\]|[^\s\[\]:/@?#\\,]+)(?::[0-9]{1,5})?")
_NO_TOKEN = "This address needs the server's token. Send the header 'authorization: Bearer TOKEN'."
_FOREIGN = "The {} {!r} is no {} of this server. If it should be one, start the server with --allowed-hosts."


def is_local(host: str) -> bool:
    """Return whether only programs of this machine reach a server that listens at an address."""
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def hosts_of(host: str, more: Iterable[str] = ()) -> list[str]:
    """Return the names and addresses of a server that listens at an address, and `more` of them."""
    hosts = {"localhost", "127.0.0.1", "::1", host, *more}
    if not is_local(host):
        name = socket.gethostname()
        hosts |= {name, socket.getfqdn()}
        with suppress(OSError):
            hosts |= {str(address[4][0]) for address in socket.getaddrinfo(name, None)}
        with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
            # It sends nothing, and finds the address by which others see this machine.
            link.connect(("192.0.2.1", 9))
            hosts.add(link.getsockname()[0])
    return sorted({host_name.lower() for host_name in hosts})


def token_for(host: str) -> str:
    """Return the token for requests: from the environment, or a new one if other machines can send requests."""
    return os.environ.get(TOKEN_VARIABLE, "") or ("" if is_local(host) else secrets.token_urlsafe(32))


@dataclass(frozen=True)
class Access:
    """The names of a server, where ``*.example.com`` stands for all below it, and its token; empty if it has none."""

    hosts: tuple[str, ...]
    token: str = ""

    def refusal(self, host: str, origin: str | None, authorization: str, computes: bool) -> tuple[int, str] | None:
        """Return the status and the reason if a request with these headers is refused. `computes` needs the token."""
        if not self._knows(f"//{host}"):
            return 403, _FOREIGN.format("Host", host, "name")
        if origin is not None and origin.partition("://")[2] != host and not self._knows(origin):
            return 403, _FOREIGN.format("Origin", origin, "page")
        sent_token = authorization.removeprefix("Bearer ").encode()
        if computes and self.token and not hmac.compare_digest(sent_token, self.token.encode()):
            return 401, _NO_TOKEN
        return None

    def _knows(self, address: str) -> bool:
        match = _ADDRESS.fullmatch(address.lower())
        name = match[1].strip("[]").rstrip(".") if match else ""
        return bool(name) and any(
            name == host or host == "*" or (host[:2] == "*." and name.endswith(host[1:])) for host in self.hosts
        )
