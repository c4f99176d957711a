"""Toy-sized training on a CPU: the example as a user starts it, and a kill in the middle."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from .support import COUNTER, ROOT, needs_server, needs_torch

TOY = [
    "--environment", str(COUNTER), "--device", "cpu", "--width", "32", "--layers", "2", "--heads", "4", "--context", "256",
    "--warmup-episodes", "60", "--warmup-steps", "40", "--warmup-batch", "8", "--tasks", "8", "--repeats", "4",
    "--max-steps", "4", "--max-tokens", "16",
]


@needs_torch
class Flags(unittest.TestCase):
    def test_a_given_model_has_its_own_defaults(self) -> None:
        spec = importlib.util.spec_from_file_location("train", ROOT / "examples/training/train.py")
        train = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(train)
        given = train.read_flags(["--environment", "x", "--model", "y"])
        self.assertEqual((given.rate, given.slots, given.micro_tokens), (2e-6, 64, 8192))
        self.assertEqual(train.read_flags(["--environment", "x", "--model", "y", "--rate", "1e-5"]).rate, 1e-5)
        self.assertGreater(train.read_flags(["--environment", "x"]).rate, 1e-4)


@needs_torch
@needs_server
class Training(unittest.TestCase):
    def setUp(self) -> None:
        self.held = tempfile.TemporaryDirectory(prefix="holdfast-training-")
        self.folder = Path(self.held.name)

    def tearDown(self) -> None:
        self.held.cleanup()

    def start(self, *flags: str) -> subprocess.Popen:
        command = [sys.executable, str(ROOT / "examples/training/train.py"), *TOY, "--out", str(self.folder), *flags]
        # A shell lets its background jobs ignore Ctrl-C, also those that run these tests.
        heed = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, preexec_fn=heed)
        self.addCleanup(process.kill)
        return process

    def finish(self, process: subprocess.Popen) -> str:
        text, _ = process.communicate(timeout=240)
        self.assertEqual(process.returncode, 0, text)
        return text

    def lines(self, name: str) -> list[dict]:
        return [json.loads(line) for line in (self.folder / name).read_text().splitlines()]

    def check_uses(self, iterations: int, rows: int) -> None:
        used = self.lines("used.jsonl")
        self.assertEqual([one["iteration"] for one in used], list(range(iterations)))
        sessions = [session for one in used for session in one["sessions"]]
        left_out = sum(sum(one["left_out"].values()) for one in self.lines("metrics.jsonl"))
        self.assertEqual(len(sessions) + left_out, iterations * rows)
        self.assertEqual(len(set(sessions)), len(sessions))

    def test_trains_and_records_what_it_did(self) -> None:
        text = self.finish(self.start("--iterations", "2"))
        self.assertIn("iteration   1  reward", text)
        metrics = self.lines("metrics.jsonl")
        for one in metrics:
            self.assertLessEqual(one["logprob_difference"], 1e-3)
            self.assertEqual(set(one["seconds"]), {"sampling", "environment", "engine", "engine_idle", "update", "total"})
        self.check_uses(2, 32)

    def test_step_rewards_and_trees_train_too(self) -> None:
        for credit, branch in (("steps", []), ("tree", ["--branch", "2@1"])):
            self.folder = Path(self.held.name) / credit
            self.finish(self.start("--iterations", "1", "--credit", credit, *branch))
            self.assertLessEqual(self.lines("metrics.jsonl")[0]["logprob_difference"], 1e-3)

    def test_ctrl_c_ends_the_trainer_and_its_children_with_one_line(self) -> None:
        process, run = self.start("--warmup-episodes", "5000"), self.folder / "run.json"
        deadline = time.monotonic() + 60
        while not (self.folder / "sessions.db").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        text, _ = process.communicate(timeout=30)
        *others, last = text.splitlines()
        self.assertEqual((process.returncode, last), (130, "stopped; start the same command again to continue"))
        self.assertTrue(all(line.startswith("warm-up") for line in others), text)
        with socket.socket() as one:
            self.assertNotEqual(one.connect_ex(("127.0.0.1", json.loads(run.read_text())["server_port"])), 0)

    def test_a_killed_trainer_continues_and_uses_every_row_once(self) -> None:
        self.kill_and_continue()

    def test_a_killed_asynchronous_trainer_continues_and_uses_every_row_once(self) -> None:
        self.kill_and_continue("--ahead", "1")
        metrics = self.lines("metrics.jsonl")
        self.assertEqual(metrics[0]["staleness"], 0)
        self.assertGreater(max(one["staleness"] for one in metrics), 0)

    def kill_and_continue(self, *more: str) -> None:
        flags = ["--iterations", "3", "--tasks", "30", *more]
        process = self.start(*flags)
        deadline = time.monotonic() + 200
        while not (self.folder / "metrics.jsonl").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        self.assertIn("continuing", self.finish(self.start(*flags)))
        self.check_uses(3, 120)


if __name__ == "__main__":
    unittest.main()
