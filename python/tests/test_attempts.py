"""What the trainer does with a request that failed: a server that is a list of ends, and no model."""

from __future__ import annotations

import tempfile
import time
import types
import unittest
from pathlib import Path

from .support import needs_torch

from holdfast.client import HoldfastError

try:
    from holdfast.trainer import Settings, Trainer
except ImportError:
    Trainer = object  # type: ignore[assignment,misc]

END = {"type": "end", "cancelled": False}
CANCELLED = {"type": "end", "cancelled": True}
FAILED = {"type": "end", "cancelled": False, "error": {"code": "model_failed", "message": "no answer"}}


def row(session: str) -> dict:
    said = {"prompt_token_ids": [1], "token_ids": [2], "generation_log_probs": [-0.5]}
    return {"type": "group", "rows": [{"reward": 1, "session_id": session, "response": {"output": [said]}}]}


class Played:
    """A server that keeps each request: the same id has the same events again."""

    def __init__(self, *streams: list) -> None:
        self.left, self.known, self.asked = list(streams), {}, []

    def rollouts(self, request: str, **_: object) -> list:
        self.asked.append(request)
        if request not in self.known:
            self.known[request] = self.left.pop(0)
        if isinstance(self.known[request], Exception):
            raise self.known[request]
        return self.known[request]


class Bare(Trainer):
    """A trainer without weights."""

    def __init__(self, client: Played, folder: Path, iteration: int = 0) -> None:
        self.client, self.folder, self.name, self.iteration = client, folder, "run", iteration
        engine = types.SimpleNamespace(seconds=0.0)
        self.policy = types.SimpleNamespace(url="http://127.0.0.1:1/v1", name="policy", busy_seconds=lambda: 0.0, engine=engine)
        self.settings, self.tasks, self.sampled, self.results, self.started = Settings(), [{}], 0, [], None


@needs_torch
class Attempts(unittest.TestCase):
    def setUp(self) -> None:
        held = tempfile.TemporaryDirectory(prefix="holdfast-attempts-")
        self.addCleanup(held.cleanup)
        self.folder = Path(held.name)

    def test_a_first_attempt_has_the_plain_id(self) -> None:
        client = Played([row("a"), END])
        Bare(client, self.folder, 7).collect()
        self.assertEqual(client.asked, ["run-7"])
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_failed_cancelled_and_empty_requests_are_asked_again_and_their_rows_are_not_used(self) -> None:
        client = Played([row("a"), FAILED], [row("b"), CANCELLED], [END], [row("c"), END])
        trainer = Bare(client, self.folder)
        collected, _ = trainer.collect()
        self.assertEqual(client.asked, ["run-0", "run-0.1", "run-0.2", "run-0.3"])
        self.assertEqual([one.session for one in collected.episodes], ["c"])
        self.assertEqual(trainer.metrics(collected, {})["request"], "run-0.3")

    def test_the_first_failure_is_shown_if_no_row_can_be_trained_on(self) -> None:
        failed = {"type": "group", "rows": [{"reward": None, "mask_sample": True, "failure_kind": "seed", "failure_reason": "no prompt"}]}
        with self.assertRaisesRegex(RuntimeError, "left out: {'masked': 1}; the first failure: no prompt; gave up"):
            Bare(Played(*[[failed, END]] * 4), self.folder).collect()

    def test_a_trainer_that_is_started_again_asks_for_the_same_attempt(self) -> None:
        client = Played([FAILED], [row("a"), END])
        Bare(client, self.folder).collect()
        collected, _ = Bare(client, self.folder).collect()
        self.assertEqual(client.asked, ["run-0", "run-0.1", "run-0.1"])
        self.assertEqual([one.session for one in collected.episodes], ["a"])

    def test_the_next_iteration_begins_with_its_first_attempt(self) -> None:
        client = Played([FAILED], [row("a"), END], [row("b"), END])
        trainer = Bare(client, self.folder)
        trainer.collect()
        trainer.iteration += 1
        trainer.collect()
        self.assertEqual(client.asked, ["run-0", "run-0.1", "run-1"])

    def test_a_damaged_file_with_the_attempt_is_named(self) -> None:
        (self.folder / "attempt.json").write_text("{")
        with self.assertRaisesRegex(RuntimeError, "cannot read .*attempt.json"):
            Bare(Played(), self.folder).collect()

    def test_a_request_with_other_settings_gets_the_next_id(self) -> None:
        client = Played(HoldfastError(409, "call_conflict", "another body"), [row("a"), END])
        Bare(client, self.folder).collect()
        self.assertEqual(client.asked, ["run-0", "run-0.1"])

    def test_other_held_out_tasks_are_another_request(self) -> None:
        client = Played([row("a"), END], [row("b"), END])
        trainer = Bare(client, self.folder)
        for tasks in ([{"n": 1}], [{"n": 1}], [{"n": 2}]):
            trainer.held_out(tasks)
        first, again, other = client.asked
        self.assertEqual(first, again)
        self.assertNotEqual(first, other)

    def test_each_iteration_has_its_own_random_seed(self) -> None:
        seeds = [Bare(Played(), self.folder, at).request()["seed"] for at in (0, 0, 1, 2)]
        self.assertEqual(seeds[0], seeds[1])
        self.assertEqual(len(set(seeds)), 3)

    def test_tasks_that_are_solved_sometimes_are_chosen_more_often(self) -> None:
        def chosen(choose: str) -> list[int]:
            times = [0] * 40
            for iteration in range(3, 203):
                trainer = Bare(Played(), self.folder, iteration)
                trainer.tasks, trainer.settings = [{}] * 40, Settings(tasks=10, choose=choose, ahead=1)
                # Half of the tasks are always solved, and the others half of the time.
                trainer.results = [{task: 1.0 for task in range(40)}, {task: 0.5 for task in range(20)}]
                drawn = trainer.choose(iteration)
                self.assertEqual(len(set(drawn)), 10)
                for task in drawn:
                    times[task] += 1
            return [sum(times[:20]), sum(times[20:])]

        often, seldom = chosen("need")
        self.assertGreater(often, 2 * seldom)
        self.assertGreater(seldom, 100)
        self.assertLess(abs(chosen("random")[0] - 1000), 100)

    def test_a_request_started_ahead_equals_the_request_after_a_restart(self) -> None:
        trainer = Bare(Played(), self.folder, 4)
        trainer.tasks, trainer.settings = [{"n": at} for at in range(40)], Settings(tasks=10, ahead=1)
        trainer.results = [{at: at % 3 / 2 for at in range(40)}] * 4
        ahead = trainer.request(later=1)
        trainer.iteration, trainer.results = 5, trainer.results + [{at: at % 2 / 2 for at in range(40)}]
        self.assertEqual(trainer.request(), ahead)

    def test_the_rollouts_of_the_next_iteration_are_started_ahead_and_asked_again_after_a_failure(self) -> None:
        client = Played([row("a"), END], [row("b"), FAILED], [row("c"), END])
        trainer = Bare(client, self.folder)
        trainer.collect()
        trainer.start_next()
        trainer.started.exception(timeout=10)
        self.assertEqual(client.asked, ["run-0", "run-1"])
        trainer.iteration += 1
        collected, _ = trainer.collect()
        self.assertEqual(client.asked, ["run-0", "run-1", "run-1.1"])
        self.assertEqual([one.session for one in collected.episodes], ["c"])

    def test_the_cost_of_the_environment_is_measured_in_two_ways(self) -> None:
        client = Played([row("a"), END])
        trainer = Bare(client, self.folder)

        def play(**request: object):
            time.sleep(0.02)
            # A request was open all the time, and the engine worked for half of it.
            trainer.policy.busy_seconds, trainer.policy.engine.seconds = lambda: 0.02, 0.01
            return Played.rollouts(client, **request)

        client.rollouts = play
        _, seconds = trainer.collect()
        self.assertEqual(set(seconds), {"sampling", "environment", "engine", "engine_idle"})
        self.assertAlmostEqual(seconds["engine_idle"] - seconds["environment"], 0.01)

    def test_gives_up_after_three_retries_and_the_next_start_goes_on(self) -> None:
        client = Played(*[[FAILED]] * 4, [row("a"), END])
        with self.assertRaisesRegex(RuntimeError, "ended early: no answer .model_failed.; gave up after 3 retries"):
            Bare(client, self.folder).collect()
        Bare(client, self.folder).collect()
        self.assertEqual(client.asked, ["run-0", "run-0.1", "run-0.2", "run-0.3", "run-0.4"])


if __name__ == "__main__":
    unittest.main()
