"""ONCE from Python: a server that is killed in the middle of an episode applies no call twice and loses none."""

from __future__ import annotations

import os
import signal
import threading
import unittest

from .proxy import Proxy
from .support import ServedCase, needs_server


@needs_server
class Once(ServedCase):
    def kill(self) -> None:
        os.kill(self.server.process.pid, signal.SIGKILL)

    def test_lost_requests_and_replies_are_sent_again_and_applied_once(self) -> None:
        losing: list[str] = []

        def lose(path: str) -> str | None:
            return losing.pop() if losing and path.endswith("/call") else None

        proxy = Proxy(self.server.port, self.kill, lose)
        self.addCleanup(proxy.close)
        restarts = self.server.restarts
        session = self.connect(proxy.url).open({"initial_count": 0, "expected_count": 10})
        repeated = []
        for at in range(10):
            # Only the first attempt is lost. A retry may arrive before the server runs again, and could not kill it.
            losing += {2: ["reply"], 5: ["request"]}.get(at, [])
            repeated.append(session.call("increment_counter", count=1)["repeated"])
        self.assertEqual([at for at, again in enumerate(repeated) if again], [2], "the third call was committed before the kill")
        self.assertEqual((session.state(), session.verify()), ({"count": 10}, 1))
        self.assertEqual([event["type"] for event in session.events()].count("tool.called"), 10)
        self.assertEqual(self.server.restarts - restarts, 2)

    def test_many_sessions_survive_a_kill_while_their_calls_run(self) -> None:
        client = self.connect()
        sessions = [client.open({"initial_count": 0, "expected_count": 20}) for _ in range(16)]
        done = threading.Semaphore(0)

        def play(session) -> float:
            for _ in range(20):
                session.call("increment_counter", count=1)
                done.release()
            return session.verify()

        played = [client.background(play, session) for session in sessions]
        for _ in range(100):
            done.acquire()
        self.kill()
        self.assertEqual([one.result() for one in played], [1] * 16)


if __name__ == "__main__":
    unittest.main()
