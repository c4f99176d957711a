"""Mistakes in the command of the training example: each is named before the run creates anything."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from .support import COUNTER, ROOT, counter_tasks, needs_torch

PROGRAM = ROOT / "examples/training/train.py"

# Flags, and what the message must contain.
WRONG = [
    ("--tasks 0", "--tasks: 0 is not an integer from 1"),
    ("--tasks -3", "--tasks"),
    ("--tasks many", "--tasks: 'many' is not an integer"),
    ("--repeats 0", "--repeats"),
    ("--iterations 0", "--iterations"),
    ("--tokens -1", "--tokens"),
    ("--updates 0", "--updates"),
    ("--micro-tokens 0", "--micro-tokens"),
    ("--max-tokens 0", "--max-tokens"),
    ("--max-steps 0", "--max-steps"),
    ("--concurrency 0", "--concurrency"),
    ("--slots 0", "--slots"),
    ("--context -8", "--context"),
    ("--seed -1", "--seed"),
    ("--seed 99999999999999999999", "--seed"),
    ("--rate inf", "--rate: inf is not a number from 0 to 1"),
    ("--rate -1", "--rate"),
    ("--clip -1", "--clip"),
    ("--kl -1", "--kl"),
    ("--entropy nan", "--entropy"),
    ("--temperature 0", "--temperature"),
    ("--discount 2", "--discount"),
    ("--stop-at nan", "--stop-at"),
    ("--device nothing", "--device"),
    ("--device cuda:99", "--device"),
    ("--layers 0", "--layers"),
    ("--heads 0", "--heads"),
    ("--width 16 --heads 3", "--width"),
    ("--width 14 --heads 2", "--width"),
    ("--warmup-episodes 0", "--warmup-episodes"),
    ("--warmup-steps -1", "--warmup-steps"),
    ("--warmup-rate -1", "--warmup-rate"),
    ("--warmup-batch 0", "--warmup-batch"),
    ("--warmup-calls 0", "--warmup-calls"),
    ("--credit tree --branch x", "--branch"),
    ("--credit tree --branch 1@1", "--branch"),
    ("--credit tree --branch 2@0", "--branch"),
    ("--credit tree --branch 2@1 --branch 3@1", "names a step twice"),
    ("--credit tree --max-steps 2", "--max-steps"),
    ("--branch 2@1", "needs --credit tree or steps"),
    ("--credit rloo --branch 2@1", "needs --credit tree or steps"),
]


@needs_torch
class Flags(unittest.TestCase):
    def setUp(self) -> None:
        spec = importlib.util.spec_from_file_location("train", PROGRAM)
        self.train = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.train)
        held = tempfile.TemporaryDirectory(prefix="holdfast-flags-")
        self.addCleanup(held.cleanup)
        self.folder = Path(held.name)

    def message(self, function, *arguments) -> str:
        """Returns what a refusal prints."""
        printed = io.StringIO()
        with contextlib.redirect_stderr(printed), self.assertRaises(SystemExit) as ended:
            function(*arguments)
        self.assertEqual(ended.exception.code, 2)
        return printed.getvalue()

    def started(self, *flags: str) -> str:
        # The program must refuse before it uses these paths of Node and of Holdfast.
        programs = ["--node", sys.executable, "--holdfast", __file__]
        given = ["--environment", str(COUNTER), "--out", str(self.folder / "run"), *programs]
        with mock.patch.object(sys, "argv", ["train.py", *given, *flags]):
            text = self.message(self.train.main)
        self.assertFalse((self.folder / "run").exists())
        return text

    def test_a_wrong_value_is_refused_by_the_name_of_its_flag(self) -> None:
        for flags, expected in WRONG:
            with self.subTest(flags):
                self.assertIn(expected, self.message(self.train.read_flags, ["--environment", "x", *flags.split()]))

    def test_right_values_are_read(self) -> None:
        flags = self.train.read_flags("--environment x --credit steps --branch 2@1 --branch 3@2 --tokens 0 --seed 0".split())
        self.assertEqual(flags.branch, [{"ways": 2, "step": 1}, {"ways": 3, "step": 2}])
        self.assertEqual(self.train.read_settings(self.train.read_flags(["--environment", "x"])).branch, [])

    def test_wrong_files_are_refused_before_the_training(self) -> None:
        task = json.dumps(counter_tasks()[0])
        contents = {
            "has no tasks": "", "line 2 of": f"{task}\nnot json\n", "line 1 of": "[1]\n", "UTF-8": "\xff",
            "has no prompt": '{"n": 1}\n',
        }
        for expected, content in contents.items():
            file = self.folder / "tasks.jsonl"
            file.write_bytes(content.encode("latin-1"))
            for flag in ("--held-out", "--task-file"):
                text = self.started(flag, str(file))
                self.assertIn(expected, text)
                self.assertIn(flag, text)
        self.assertIn("cannot read", self.started("--held-out", "missing.jsonl"))
        self.assertIn("cannot read", self.started("--task-file", str(self.folder)))
        self.assertIn("--environment: missing does not exist", self.started("--environment", "missing"))
        self.assertIn("--model", self.started("--model", "missing"))
        self.assertIn("is not a program", self.started("--node", "missing"))
        self.assertIn("is not a file", self.started("--holdfast", "missing"))

    def test_a_damaged_file_is_named(self) -> None:
        (self.folder / "run.json").write_text("{")
        (self.folder / "warm.pt").write_bytes(b"damaged")
        with self.assertRaisesRegex(self.train.TrainingError, "cannot read .*run.json: .*another --out"):
            self.train.read_run(self.folder)
        with self.assertRaisesRegex(self.train.TrainingError, "cannot read .*warm.pt: .*another --out"):
            self.train.load_model(self.train.read_flags(["--environment", "x", "--device", "cpu"]), self.folder)


if __name__ == "__main__":
    unittest.main()
