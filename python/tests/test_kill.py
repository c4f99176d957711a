"""A server that is killed while it plays rollouts for a client."""

from __future__ import annotations

import os
import signal
import unittest

from holdfast.client import Client
from .support import ServedCase, counter_tasks, needs_server


@needs_server
class Kill(ServedCase):
    def test_a_killed_server_continues_and_no_row_is_lost_or_doubled(self) -> None:
        client = Client(self.server.url, patience=90)
        tasks = [{**row, "_ng_task_index": at} for at, row in enumerate(counter_tasks())]
        seen = []
        for event in client.rollouts(request="killed", tasks=tasks, repeats=20, model={"name": "random"}):
            if event["type"] == "row":
                seen.append((event["row"]["_ng_task_index"], event["row"]["_ng_rollout_index"]))
                if len(seen) == 50:
                    os.kill(self.server.process.pid, signal.SIGKILL)
        self.assertEqual(len(seen), 1200)
        self.assertEqual(len(set(seen)), 1200)
        self.assertEqual(self.server.restarts, 1)


if __name__ == "__main__":
    unittest.main()
