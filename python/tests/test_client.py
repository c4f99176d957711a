"""The client against a real server."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
import socket
import threading
import unittest
from typing import Any
from unittest import mock

from holdfast.client import Client, HoldfastError, Unreachable
from .support import ANSWERS, TASK, ServedCase, counter_tasks, needs_server


@needs_server
class Sessions(ServedCase):
    def setUp(self) -> None:
        self.client = self.connect()

    def test_plays_an_episode(self) -> None:
        session = self.client.open(TASK, random=7, labels={"group": "a"})
        self.assertEqual(session.call("get_counter_value")["output"], {"count": 3})
        self.assertEqual(session.verify(), 0)
        self.assertTrue(session.call("increment_counter", count=2)["ok"])
        self.assertEqual(session.state(), {"count": 5})
        self.assertEqual(session.verify(), 1)
        self.assertEqual(session.info()["labels"], {"group": "a"})
        self.assertTrue(session.close())
        self.assertFalse(session.close())
        with self.assertRaises(HoldfastError) as refused:
            session.call("get_counter_value")
        self.assertEqual((refused.exception.code, refused.exception.status), ("session_closed", 410))

    def test_reads_states_and_events_of_versions(self) -> None:
        session = self.client.open(TASK)
        session.call("increment_counter", count=2)
        self.assertEqual([session.state(version) for version in (2, 3)], [{"count": 3}, {"count": 5}])
        self.assertEqual([event["version"] for event in session.events()], [1, 2, 3])
        self.assertEqual([event["tool"] for event in session.events(after=2)], ["increment_counter"])

    def test_a_seed_starts_a_new_episode_and_is_applied_once(self) -> None:
        session = self.client.open(TASK)
        session.call("increment_counter", count=2)
        for _ in range(2):
            session.seed({"initial_count": 10}, call="again")
        self.assertEqual((session.state(), session.state(3)), ({"count": 10}, {"count": 5}))
        self.assertEqual(session.info()["version"], 4)

    def test_verify_takes_another_task_and_returns_the_verdict(self) -> None:
        session = self.client.open(TASK)
        self.assertEqual(session.verify(task={"expected_count": 3}), 1)
        verdict = session.verification()
        self.assertEqual((verdict["reward"], verdict["version"], verdict["episode"]), (0, 2, 1))

    def test_lists_sessions_by_label(self) -> None:
        opened = [self.client.open(TASK, labels={"batch": "listed"}).id for _ in range(3)]
        self.client.session(opened[0]).close()
        listed = {name: [one["session"] for one in self.client.sessions(open, {"batch": "listed"})] for name, open in
                  {"all": None, "open": True, "ended": False}.items()}
        self.assertEqual(listed, {"all": opened, "open": opened[1:], "ended": opened[:1]})

    def test_reads_the_tasks_of_the_environment(self) -> None:
        self.assertEqual(list(self.client.tasks()), counter_tasks())

    def test_a_repeated_call_id_is_applied_once(self) -> None:
        session = self.client.open(TASK)
        answers = [session.call("increment_counter", {"count": 2}, call="once") for _ in range(3)]
        self.assertEqual([answer["repeated"] for answer in answers], [False, True, True])
        self.assertEqual(session.state(), {"count": 5})

    def test_two_clients_of_a_session_do_not_share_call_ids(self) -> None:
        session = self.client.open(TASK)
        for one in (session, self.client.session(session.id), copy.copy(session), pickle.loads(pickle.dumps(session))):
            one.call("increment_counter", count=1)
            self.addCleanup(one.client.close)
        self.assertEqual(session.state(), {"count": 7})

    def test_forks_and_rewards_of_versions(self) -> None:
        session = self.client.open(TASK)
        session.call("increment_counter", count=2)
        session.call("increment_counter", count=1)
        rewards = session.rewards()
        self.assertEqual([one["reward"] for one in rewards], [0, 1, 0])
        self.assertEqual([session.verify(one["version"]) for one in rewards], [0, 1, 0])
        fork = session.fork(rewards[1]["version"])
        self.assertEqual(fork.verify(), 1)
        self.assertEqual(session.verify(), 0)

    def test_threads_share_a_client(self) -> None:
        session = self.client.open({"initial_count": 0, "expected_count": 40})
        workers = [threading.Thread(target=lambda: [session.call("increment_counter", count=1) for _ in range(5)]) for _ in range(8)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        self.assertEqual(session.verify(), 1)

    def test_a_forked_process_has_connections_of_its_own(self) -> None:
        session = self.client.open(TASK)
        context = multiprocessing.get_context("fork")
        children = [context.Process(target=lambda: [session.client.session(session.id).call("increment_counter", count=1) for _ in range(5)]) for _ in range(4)]
        for child in children:
            child.start()
        for _ in range(5):
            session.call("increment_counter", count=1)
        for child in children:
            child.join()
        self.assertEqual(session.state(), {"count": 28})

    def test_a_closed_client_connects_again(self) -> None:
        session = self.client.open(TASK)
        self.client.background(session.call, "increment_counter", count=1).result()
        self.client.close()
        self.client.background(session.call, "increment_counter", count=1).result()
        self.assertEqual(session.state(), {"count": 5})


@needs_server
class Errors(ServedCase):
    store = "memory:"

    def setUp(self) -> None:
        self.client = self.connect()

    def refused(self, code: str, status: int, function: Any, *args: Any, **kwargs: Any) -> HoldfastError:
        with self.assertRaises(HoldfastError) as refused:
            function(*args, **kwargs)
        self.assertEqual((refused.exception.code, refused.exception.status), (code, status))
        self.assertIn(refused.exception.message, str(refused.exception))
        return refused.exception

    def test_the_error_of_a_tool_is_an_answer(self) -> None:
        session = self.client.open(TASK)
        for tool, input, code in (
            ("increment_counter", {"count": "two"}, "invalid_input"),
            ("increment_counter", {}, "invalid_input"),
            ("missing", {}, "unknown_tool"),
            ("seed_session", {}, "unknown_tool"),
        ):
            answer = session.call(tool, input)
            self.assertEqual((answer["ok"], answer["error"]["code"]), (False, code))
        self.assertEqual(session.state(), {"count": 3})

    def test_wrong_ids_open_nothing(self) -> None:
        for id in ("missing", "", "../environment", "a b?c=d&e", "é", "x" * 300):
            session = self.client.session(id)
            for function in (session.state, session.info, session.verify, session.rewards, session.fork):
                with self.assertRaises(HoldfastError) as refused:
                    function()
                self.assertIn(refused.exception.code, ("session_not_found", "not_found", "method_not_allowed"), id)

    def test_refusals_have_their_codes(self) -> None:
        session = self.client.open(TASK)
        session.call("increment_counter", {"count": 1}, call="first")
        self.refused("call_conflict", 409, session.call, "increment_counter", {"count": 2}, call="first")
        self.refused("version_not_found", 404, session.state, 99)
        self.refused("version_not_found", 404, session.fork, 99)
        self.refused("invalid_task", 422, self.client.open, {"initial_count": "three"})
        self.refused("invalid_task", 422, session.seed, {"initial_count": "three"})
        self.refused("invalid_option", 400, session.state, "two")
        self.refused("not_found", 404, self.client.tasks("missing").__next__)

    def test_bad_input_is_refused(self) -> None:
        session = self.client.open(TASK)
        self.refused("invalid_json", 400, session.call, "increment_counter", count=float("nan"))
        with self.assertRaisesRegex(TypeError, "is not JSON"):
            session.call("increment_counter", count=object())
        self.assertEqual(session.state(), {"count": 3})

    def test_an_error_keeps_its_detail_and_can_be_pickled(self) -> None:
        error = self.refused("version_not_found", 404, self.client.open(TASK).state, 99)
        again = pickle.loads(pickle.dumps(error))
        self.assertEqual(vars(again), vars(error))
        self.assertIsInstance(error.detail, dict)

    def test_a_reply_that_is_not_from_holdfast_is_an_error(self) -> None:
        self.refused("not_found", 404, self.connect(f"{self.server.url}/elsewhere").environment)

    def test_a_server_that_does_not_answer_is_named(self) -> None:
        with self.assertRaisesRegex(ConnectionError, "http://127.0.0.1:9 does not answer") as broken:
            Client("http://127.0.0.1:9", patience=0).environment()
        self.assertIsInstance(broken.exception, Unreachable)
        self.assertEqual(broken.exception.code, "server_failed")
        self.assertEqual(pickle.loads(pickle.dumps(broken.exception)).code, "server_failed")


@needs_server
class Slow(ServedCase):
    example = ANSWERS
    store = "memory:"

    def test_a_call_longer_than_the_timeout_runs_once_and_completes(self) -> None:
        client = self.connect(timeout=1, patience=60)
        for tool in ("wait", "hold"):
            self.assertEqual(client.open({"answer": ""}).call(tool, seconds=1.5)["output"], {"started": 1})

    def test_the_client_pauses_only_briefly_after_a_timeout(self) -> None:
        pauses = [None] * 4 + [RuntimeError("enough")]
        with socket.create_server(("127.0.0.1", 0)) as silent, mock.patch("holdfast.client.time.sleep", side_effect=pauses) as sleep:
            client = Client(f"http://127.0.0.1:{silent.getsockname()[1]}", timeout=0.05)
            self.assertRaisesRegex(RuntimeError, "enough", client.environment)
        self.assertLess(max(call.args[0] for call in sleep.call_args_list), 0.08)

    def test_the_patience_begins_with_the_first_failure(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent, mock.patch("holdfast.client.time.sleep") as sleep:
            # The time-out is as long as the patience, as in the defaults.
            client = Client(f"http://127.0.0.1:{silent.getsockname()[1]}", timeout=0.05, patience=0.05)
            self.assertRaises(Unreachable, client.environment)
        sleep.assert_called()


@needs_server
class Closed(ServedCase):
    store = "memory:"

    def test_a_server_that_is_closed_before_its_restart_does_not_start_again(self) -> None:
        with mock.patch.object(self.server, "_start", side_effect=RuntimeError("started again")) as start:
            self.server.process.kill()
            self.server.process.wait()
            self.server.close()
            self.server.thread.join(timeout=5)
        self.assertFalse(self.server.thread.is_alive())
        start.assert_not_called()


@needs_server
class Token(ServedCase):
    store = "memory:"
    flags = ["--token", "a-secret-of-the-tests"]

    def test_the_token_opens_the_api(self) -> None:
        session = self.connect(token="a-secret-of-the-tests").open(TASK)
        sent = pickle.loads(pickle.dumps(session))
        self.addCleanup(sent.client.close)
        self.assertEqual(sent.state(), {"count": 3})
        for token in (None, "another-secret"):
            with self.assertRaises(HoldfastError) as refused:
                self.connect(token=token).session(session.id).state()
            self.assertEqual((refused.exception.code, refused.exception.status), ("unauthorized", 401))


@needs_server
class Rollouts(ServedCase):
    def setUp(self) -> None:
        self.client = self.connect(patience=90)
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
