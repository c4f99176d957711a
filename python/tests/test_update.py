"""What an update of the weights does with episodes: a tiny model, and episodes made here."""

from __future__ import annotations

import json
import tempfile
import threading
import types
import unittest
from pathlib import Path

from .support import needs_torch

try:
    import torch
    from holdfast.data import Collected, Episode, Step, grpo, to_batch
    from holdfast.model import TinyConfig, TinyModel
    from holdfast.trainer import Settings, Trainer, TrainingError, load_checkpoint
except ImportError:
    pass


def make(folder=tempfile.gettempdir(), **settings):
    torch.manual_seed(1)
    model = TinyModel(TinyConfig(20, 16, 1, 2, 64)).eval()
    engine = types.SimpleNamespace(model_lock=threading.Lock())
    policy = types.SimpleNamespace(model=model, engine=engine, format=types.SimpleNamespace(pad=0), url="", name="policy")
    return Trainer(None, policy, [{}], Path(folder), "run", Settings(**settings))


def group(task, *rewards):
    """Episodes of two prompt tokens and one answer."""
    return [Episode(task, at, f"{task}-{at}", reward, [1, 2, 3 + at, 4], [0, 0, -1.0, -1.0], [Step(2, 4, [])]) for at, reward in enumerate(rewards)]


@needs_torch
class Updates(unittest.TestCase):
    def trained(self, **settings):
        """Returns the updated episodes, by task: 0 is never solved, 1 is solved once, 2 is always solved."""
        collected = Collected(group(0, 0, 0) + group(1, 1, 0) + group(2, 1, 1))
        collected.credit(grpo)
        trainer = make(**settings)
        before = [one.clone() for one in trainer.model.parameters()]
        self.assertEqual(trainer.update(collected.episodes)["optimizer_steps"], 1)
        self.assertTrue(any(bool((one != now).any()) for one, now in zip(before, trainer.model.parameters())))
        return [one.task for one in trainer.useful(collected.episodes)]

    def test_an_entropy_bonus_explores_unsolved_tasks_but_not_solved_ones(self) -> None:
        self.assertEqual(self.trained(entropy=0.01), [0, 0, 1, 1])
        self.assertEqual(self.trained(entropy=0.0), [1, 1])
        self.assertEqual(self.trained(kl=0.1), [0, 0, 1, 1, 2, 2])

    def test_metrics_count_dead_and_solved_groups(self) -> None:
        metrics = make().metrics(Collected(group(0, 0, 0) + group(1, 1, 0) + group(2, 1, 1) + group(3, 0, 0)), {})
        self.assertEqual([metrics[name] for name in ("tasks", "dead_groups", "tasks_solved_once", "solved_groups")], [4, 2, 2, 1])

    def test_an_asynchronous_trainer_changes_the_weights_of_the_policy_only_when_it_publishes_them(self) -> None:
        trainer, published = make(ahead=1), []
        trainer.policy.reload = lambda state, version: published.append((state, version))
        trainer.policy.engine.model_lock.acquire()
        before = [one.clone() for one in trainer.policy.model.parameters()]
        collected = Collected(group(0, 1, 0))
        collected.credit(grpo)
        trainer.update(collected.episodes)
        self.assertTrue(all(bool((one == now).all()) for one, now in zip(before, trainer.policy.model.parameters())))
        trainer.iteration = 1
        trainer.publish()
        ((state, version),) = published
        self.assertEqual(version, 1)
        self.assertFalse(bool((state["embed.weight"] == before[0]).all()))

    def test_the_version_of_the_weights_changes_only_while_their_lock_is_held(self) -> None:
        held = []

        class Engine(types.SimpleNamespace):
            def __setattr__(self, name, value) -> None:
                held.append((name, value, self.model_lock.locked()))

        trainer = make()
        trainer.policy.engine, trainer.iteration = Engine(model_lock=threading.Lock()), 3
        trainer.publish()
        self.assertEqual(held, [("version", 3, True)])

    def test_metrics_tell_how_old_the_weights_of_the_answers_are(self) -> None:
        trainer, episodes = make(), group(0, 1, 0) + group(1, 1, 0)
        trainer.iteration = 5
        for one, version in zip(episodes, (5, 4, 4, None)):
            one.steps[0].version = version
        self.assertEqual(trainer.metrics(Collected(episodes), {})["staleness"], 0.5)
        # Older weights sampled other log-probs, which are not an error.
        self.assertIn("logprob_difference", trainer.compare(episodes))
        self.assertNotIn("logprob_difference", trainer.compare(episodes[1:3]))

    def test_dropout_is_off_in_an_update(self) -> None:
        trainer, states = make(entropy=0.01), []
        trainer.model.train()
        whole = trainer.loss
        trainer.loss = lambda batch, tokens: (states.append(trainer.model.training), whole(batch, tokens))[1]
        trainer.update(group(0, 0, 0))
        self.assertEqual(states, [False])

    def test_the_entropy_bonus_falls_with_the_learning_rate(self) -> None:
        trainer = make(entropy=0.01, iterations=11)
        batch = to_batch(group(0, 0, 0), 0)
        first, _ = trainer.loss(batch, 4)
        trainer.iteration = 10
        last, _ = trainer.loss(batch, 4)
        self.assertAlmostEqual(float(last / first), 0.1, places=5)

    def runs(self, folder, **settings):
        """A trainer that gets the same rollouts for each iteration."""
        trainer = make(folder, **settings)
        trainer.collect = lambda: (Collected(group(0, 1, 0)), {})
        return trainer

    def test_weights_that_are_not_finite_are_not_saved_and_a_lower_rate_continues(self) -> None:
        for rate in (float("inf"), float("nan"), 1e30):
            with self.subTest(rate), tempfile.TemporaryDirectory(prefix="holdfast-update-") as folder:
                self.runs(folder, iterations=1).run()
                spoiled = self.runs(folder, iterations=3)
                spoiled.load()
                spoiled.settings.rate = rate
                with self.assertRaisesRegex(TrainingError, "iteration 1 .*not finite.* lower --rate"):
                    spoiled.run()
                self.assertEqual(load_checkpoint(Path(folder) / "checkpoint.pt")["iteration"], 1)
                lines = (Path(folder) / "metrics.jsonl").read_text().splitlines()
                self.assertEqual([json.loads(line)["iteration"] for line in lines], [0])
                again = self.runs(folder, iterations=3)
                again.load()
                self.assertEqual(len(again.run()), 3)

    def test_a_checkpoint_with_weights_that_are_not_finite_is_named(self) -> None:
        with tempfile.TemporaryDirectory(prefix="holdfast-update-") as folder:
            trainer = make(folder)
            trainer.model.embed.weight.data[0] = float("nan")
            trainer.save([])
            with self.assertRaisesRegex(TrainingError, "checkpoint.pt: it has weights that are not finite"):
                make(folder).load()

    def test_a_run_that_reached_its_goal_does_not_train_again(self) -> None:
        with tempfile.TemporaryDirectory(prefix="holdfast-update-") as folder:
            self.assertEqual(len(self.runs(folder, iterations=5, stop_at=0.5).run()), 1)
            again = self.runs(folder, iterations=5, stop_at=0.5)
            again.load()
            self.assertEqual(len(again.run()), 1)

    def test_an_iteration_without_sampled_tokens_names_the_context(self) -> None:
        trainer = make()
        trainer.collect = lambda: (Collected([Episode(0, 0, "a", 0, [1, 2], [0, 0], [Step(2, 2, [])])]), {})
        with self.assertRaisesRegex(TrainingError, "larger --context"):
            trainer.run()


if __name__ == "__main__":
    unittest.main()
