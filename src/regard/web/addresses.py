"""Addresses that a server listens at, and names that reach it."""

import contextlib
import ipaddress
import socket

from regard.errors import ConfigError


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens at an address; port 0 is any free one.

    Raises:
        ConfigError: The address does not exist, or is in use.
    """
    try:
        if not host:
            raise OSError(0, "the address is empty")
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with contextlib.ExitStack() as failing:
            listener = failing.enter_context(socket.socket(family, kind, protocol))
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen()
            failing.pop_all()
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or "no valid name"
        raise ConfigError(
            f"--host {host} --port {port}: a server cannot listen there ({reason}); choose "
            f"another address or port."
        ) from None
    return listener


def address_of(host: str, listener: socket.socket) -> str:
    """Return the address of the server as a browser takes it."""
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{listener.getsockname()[1]}"


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a host name or address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
