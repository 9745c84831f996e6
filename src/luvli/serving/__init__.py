"""`luvli serve`: predictions over HTTP, a page to look at them, and a client.

The server is a FastAPI application on uvicorn. Images are decoded and searched for faces in
threads, and the faces of concurrent requests share calls of the network.
"""

from typing import TYPE_CHECKING

from luvli._lazy import lazy

if TYPE_CHECKING:
    from luvli.serving.client import AsyncClient, Client, Prediction, ServerError

__all__ = ["AsyncClient", "Client", "Prediction", "ServerError"]

__getattr__ = lazy(__name__, dict.fromkeys(__all__, "client"), needs={"httpx": "serve"})
