"""`luvli serve`: predictions over HTTP, a page to look at them, and a client.

The server is a FastAPI application on uvicorn. Images are decoded and searched for faces in
threads, and the faces of concurrent requests share calls of the network.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from luvli.serving.client import AsyncClient, Client
    from luvli.serving.client_stream import Prediction, ServerError

__all__ = ["AsyncClient", "Client", "Prediction", "ServerError"]


def __getattr__(name: str) -> Any:
    """The client is imported on first use; it needs httpx, of the extra `serve`."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from luvli.serving import client, client_stream

    return getattr(client if name.endswith("Client") else client_stream, name)
