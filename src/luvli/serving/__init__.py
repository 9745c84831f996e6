"""`luvli serve`: predictions over HTTP, a page to look at them, and a client.

The application runs in one event loop: bodies are read there, images are decoded and searched
for faces in threads, and the faces of all requests share calls of the network.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from luvli.serving.client import Client, Prediction, ServerError

__all__ = ["Client", "Prediction", "ServerError"]


def __getattr__(name: str) -> Any:
    """The client is looked up on first use; the server's parts need the extra `serve`."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from luvli.serving import client

    return getattr(client, name)
