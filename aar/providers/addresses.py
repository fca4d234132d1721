"""Addresses of servers as people write them."""

from __future__ import annotations

from aar.providers.http import is_loopback, split_url

__all__ = ["with_scheme"]


def with_scheme(address: str) -> str:
    """Without a scheme it is `https`, on this machine `http`; an empty one stays empty.

    Raises `InvalidSetting` for what is no URL of a server.
    """
    address = address.strip()
    if address and "://" not in address:
        host = split_url(f"http://{address}").hostname or ""
        address = f"{'http' if is_loopback(host) else 'https'}://{address}"
    if address:
        split_url(address)
    return address
