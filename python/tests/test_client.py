"""The client against a real server."""

from __future__ import annotations

import threading
import unittest

from holdfast.client import Client, HoldfastError
from .support import ServedCase, counter_tasks, needs_server

TASK = {"initial_count": 3, "expected_count": 5}


@needs_server
class Sessions(ServedCase):
    def setUp(self) -> None:
        self.client = Client(self.server.url)

    def test_plays_an_episode(self) -> None:
        session = self.client.open(TASK, random=7, labels={"group": "a"})
        self.assertEqual(session.call("get_counter_value")["output"], {"count": 3})
        self.assertEqual(session.verify(), 0)
        self.assertTrue(session.call("increment_counter", count=2)["ok"])
        self.assertEqual(session.state(), {"count": 5})
        self.assertEqual(session.verify(), 1)
        self.assertTrue(session.close())
        self.assertFalse(session.close())

    def test_a_repeated_call_id_is_applied_once(self) -> None:
        session = self.client.open(TASK)
        for _ in range(3):
            session.call("increment_counter", {"count": 2}, call="once")
        self.assertEqual(session.state(), {"count": 5})

    def test_two_clients_of_a_session_do_not_share_call_ids(self) -> None:
        session = self.client.open(TASK)
        session.call("increment_counter", count=1)
        self.client.session(session.id).call("increment_counter", count=1)
        self.assertEqual(session.state(), {"count": 5})

    def test_forks_and_rewards_of_versions(self) -> None:
        session = self.client.open(TASK)
        session.call("increment_counter", count=2)
        session.call("increment_counter", count=1)
        rewards = session.rewards()
        self.assertEqual([one["reward"] for one in rewards], [0, 1, 0])
        fork = session.fork(rewards[1]["version"])
        self.assertEqual(fork.verify(), 1)
        self.assertEqual(session.verify(), 0)

    def test_the_error_of_a_tool_is_an_answer(self) -> None:
        answer = self.client.open(TASK).call("increment_counter", count="two")
        self.assertFalse(answer["ok"])
        self.assertEqual(answer["error"]["code"], "invalid_input")

    def test_a_refusal_raises_its_code(self) -> None:
        with self.assertRaises(HoldfastError) as refused:
            self.client.session("missing").state()
        self.assertEqual((refused.exception.code, refused.exception.status), ("session_not_found", 404))

    def test_a_server_that_does_not_answer_is_named(self) -> None:
        with self.assertRaisesRegex(ConnectionError, "http://127.0.0.1:9 does not answer"):
            Client("http://127.0.0.1:9", patience=0).environment()

    def test_an_invalid_url_is_refused(self) -> None:
        with self.assertRaisesRegex(ValueError, "is not a valid server URL"):
            Client("localhost:8080")

    def test_threads_share_a_client(self) -> None:
        session = self.client.open({"initial_count": 0, "expected_count": 40})
        workers = [threading.Thread(target=lambda: [session.client.session(session.id).call("increment_counter", count=1) for _ in range(5)]) for _ in range(8)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        self.assertEqual(session.verify(), 1)


@needs_server
class Rollouts(ServedCase):
    def setUp(self) -> None:
        self.client = Client(self.server.url, patience=90)
        self.tasks = [{**row, "_ng_task_index": at} for at, row in enumerate(counter_tasks()[:4])]

    def test_streams_groups_of_rows(self) -> None:
        events = list(self.client.rollouts(tasks=self.tasks, repeats=2, model={"name": "scripted"}, groups=True, stepRewards=True))
        groups = [event for event in events if event["type"] == "group"]
        self.assertEqual(sorted(group["task"] for group in groups), [0, 1, 2, 3])
        rows = [row for group in groups for row in group["rows"]]
        self.assertEqual([row["reward"] for row in rows], [1] * 8)
        self.assertEqual([one["reward"] for one in rows[0]["step_rewards"]], [0, 1])
        self.assertEqual(events[-1]["type"], "end")

    def test_a_repeated_request_gives_the_same_rows(self) -> None:
        ask = {"tasks": self.tasks, "repeats": 2, "model": {"name": "random"}}
        first, again = (self.sessions(self.client.rollouts(request="again", **ask)) for _ in range(2))
        self.assertEqual(len(set(first)), 8)
        self.assertEqual(sorted(first), sorted(again))

    def test_continues_after_an_event(self) -> None:
        ask = {"tasks": self.tasks, "repeats": 1, "model": {"name": "scripted"}}
        events = [event for event in self.client.rollouts(request="after", **ask) if event["type"] == "row"]
        rest = [event for event in self.client.rollouts(request="after", after=events[1]["index"], **ask) if event["type"] == "row"]
        self.assertEqual([event["index"] for event in rest], [event["index"] for event in events[2:]])

    def sessions(self, events) -> list[str]:
        return [event["row"]["session_id"] for event in events if event["type"] == "row"]


if __name__ == "__main__":
    unittest.main()
