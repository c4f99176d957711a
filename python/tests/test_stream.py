"""The stream of rollouts against a server that breaks: no Node, only replies from a list."""

from __future__ import annotations

import json
import threading
import time
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from holdfast.client import Client, HoldfastError

BEGUN, ROW, END = ({"type": type, "index": index} for index, type in enumerate(("begun", "row", "end")))
WAITING = {"type": "waiting"}


class Stream(unittest.TestCase):
    def serve(self, *replies: list | int | bytes) -> Client:
        """Serves one reply after the other: events after which the connection ends, a body, or a status. Keeps what was asked."""
        left, asked = list(replies), []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.rfile.read(int(self.headers.get("content-length", 0)))
                asked.append(f"{self.command} {self.path}")
                reply = left.pop(0)
                self.send_response(reply if isinstance(reply, int) else 200)
                self.end_headers()
                if isinstance(reply, list):
                    reply = b"".join(json.dumps(event).encode() + b"\n" for event in reply)
                if isinstance(reply, bytes):
                    self.wfile.write(reply)

            do_POST = do_DELETE = do_GET

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.asked = asked
        return Client(f"http://127.0.0.1:{server.server_port}", patience=5)

    def test_a_request_that_is_lost_after_a_row_is_an_error_and_not_begun_again(self) -> None:
        client, seen = self.serve([BEGUN, ROW], 404), []
        with self.assertRaisesRegex(HoldfastError, "has lost the request once .*use a persistent --store"):
            for event in client.rollouts(request="once"):
                seen.append(event)
        self.assertEqual(seen, [BEGUN, ROW])
        self.assertEqual(self.asked, ["POST /v1/rollouts", "GET /v1/rollouts/once?after=1"])

    def test_a_request_that_is_continued_after_an_event_is_not_begun_again(self) -> None:
        with self.assertRaisesRegex(HoldfastError, "has lost the request once"):
            list(self.serve(404).rollouts(request="once", after=1))
        self.assertEqual(self.asked, ["GET /v1/rollouts/once?after=1"])

    def test_a_request_that_is_lost_before_any_event_is_begun_again(self) -> None:
        client = self.serve([WAITING], 404, [BEGUN, ROW, END])
        self.assertEqual(list(client.rollouts(request="once")), [BEGUN, ROW, END])
        self.assertEqual([one.split(" ")[0] for one in self.asked], ["POST", "GET", "POST"])

    def test_work_on_an_event_that_is_longer_than_the_patience_does_not_end_the_stream(self) -> None:
        client, seen = self.serve([BEGUN, ROW], 503, [END]), []
        client.patience = 0.5
        for event in client.rollouts(request="once"):
            seen.append(event)
            if event == ROW:
                time.sleep(0.6)
        self.assertEqual(seen, [BEGUN, ROW, END])

    def test_a_server_that_stays_broken_ends_the_stream_after_the_patience(self) -> None:
        client = self.serve([BEGUN], *[503] * 50)
        client.patience = 0.2
        with self.assertRaisesRegex(ConnectionError, "rollouts once of .* stopped"):
            list(client.rollouts(request="once"))
        self.assertGreater(len(self.asked), 2)

    def test_a_reply_that_is_not_from_holdfast_is_an_error(self) -> None:
        uses = {
            "rollouts": lambda client: list(client.rollouts(request="once")),
            "environment": lambda client: client.environment(),
            "open": lambda client: client.open(),
            "state": lambda client: client.session("s").state(),
            "call": lambda client: client.session("s").call("x"),
            "close": lambda client: client.session("s").close(),
            "sessions": lambda client: list(client.sessions()),
        }
        for name, use in uses.items():
            for reply in (b"<html>\n</html>\n", b"<html>", b"[1]\n", b'{"type": bro\n', b"\xff\n", 302, *([] if name == "call" else [b"{}\n"])):
                with self.subTest(name, reply=reply), self.assertRaisesRegex(HoldfastError, "not Holdfast's API; is the address correct"):
                    use(self.serve(reply))


class Arguments(unittest.TestCase):
    def test_an_invalid_url_is_refused(self) -> None:
        for url in ("localhost:8080", "http://x:99999", "http://x:abc", "http://[x", "http://", ""):
            with self.assertRaisesRegex(ValueError, "is not a valid server URL"):
                Client(url)

    def test_a_token_that_no_header_can_carry_is_refused_and_not_shown(self) -> None:
        for token in ("secret\nx", "secret€", "secret x"):
            with self.assertRaisesRegex(ValueError, "the token has a character") as refused:
                Client("http://127.0.0.1:8080", token)
            self.assertNotIn("secret", str(refused.exception))


if __name__ == "__main__":
    unittest.main()
