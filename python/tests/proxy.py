"""A proxy between a client and a server that is killed: it loses chosen requests or replies, as a crash does."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Proxy:
    """Forwards requests. `lose` says for a path whether its request or its reply is lost, and `kill` ends the server."""

    def __init__(self, port: int, kill: Callable[[], None], lose: Callable[[str], str | None]) -> None:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                lost = lose(self.path)
                try:
                    if lost == "request":
                        kill()
                        raise ConnectionError("lost")
                    server = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
                    try:
                        server.request(self.command, self.path, body, {"content-type": "application/json"} if body else {})
                        reply = server.getresponse()
                        status, text = reply.status, reply.read()
                    finally:
                        server.close()
                    if lost == "reply":
                        kill()
                        raise ConnectionError("lost")
                except (OSError, http.client.HTTPException):
                    self.close_connection = True
                    return
                self.send_response(status)
                self.send_header("content-length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_POST = do_DELETE = do_GET

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
