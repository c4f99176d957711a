"""Mistakes in the command of the training example: each is named before the run creates anything."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import subprocess
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
    ("--branch 2@1", "needs --credit tree;"),
    ("--credit rloo --branch 2@1", "needs --credit tree;"),
    ("--credit steps --branch 2@1", "needs --credit tree;"),
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
        flags = self.train.read_flags("--environment x --credit tree --branch 2@1 --branch 3@2 --tokens 0 --seed 0".split())
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

    def read_run(self, tasks: list[dict], *flags: str) -> dict:
        return self.train.read_run(self.folder, self.train.read_flags(["--environment", str(COUNTER), *flags]), tasks)

    def test_another_run_in_the_same_folder_is_refused(self) -> None:
        first = self.read_run([{"n": 1}])
        # Nothing was trained yet, so a mistake can still be corrected.
        second = self.read_run([{"n": 2}])
        self.assertNotEqual(first["about"], second["about"])
        (self.folder / "warm.pt").touch()
        self.assertEqual(self.read_run([{"n": 2}], "--iterations", "3", "--rate", "0.1", "--tasks", "2"), second)
        library = str(ROOT / "examples/library")
        for tasks, flags in (([{"n": 1}], []), ([{"n": 2}], ["--environment", library]), ([{"n": 2}], ["--model", "x"])):
            self.assertIn("choose another --out", self.message(self.read_run, tasks, *flags))

    def test_a_folder_of_an_earlier_version_continues(self) -> None:
        old = {"name": "old", "server_port": 1, "policy_port": 2}
        (self.folder / "run.json").write_text(json.dumps(old))
        (self.folder / "checkpoint.pt").touch()
        self.assertEqual({**self.read_run([{"n": 1}]), "about": None}, {**old, "about": None})

    def test_another_size_of_the_tiny_model_is_refused(self) -> None:
        train = self.train
        model, words = train.TinyModel(train.TinyConfig(20, 16, 1, 2, 64)), [str(at) for at in range(10)]
        train.torch.save({"words": words, "config": vars(model.config), "model": model.state_dict()}, self.folder / "warm.pt")
        same = "--environment x --device cpu --width 16 --layers 1 --heads 2 --context 64".split()
        self.assertEqual(train.load_model(train.read_flags(same), self.folder)[0].config, model.config)
        for flag in ("--width", "--layers", "--heads", "--context"):
            other = train.read_flags([*same, flag, "4" if flag == "--heads" else "128"])
            self.assertIn(flag, self.message(train.load_model, other, self.folder))

    def test_a_damaged_file_is_named(self) -> None:
        (self.folder / "run.json").write_text("{")
        (self.folder / "warm.pt").write_bytes(b"damaged")
        with self.assertRaisesRegex(self.train.TrainingError, "cannot read .*run.json: .*another --out"):
            self.read_run([{"n": 1}])
        with self.assertRaisesRegex(self.train.TrainingError, "cannot read .*warm.pt: .*another --out"):
            self.train.load_model(self.train.read_flags(["--environment", "x", "--device", "cpu"]), self.folder)

    def test_a_folder_in_which_another_process_trains_is_refused(self) -> None:
        command = [sys.executable, str(PROGRAM), "--environment", str(COUNTER), "--out", str(self.folder)]
        with self.train.open_folder(self.folder):
            ended = subprocess.run([*command, "--node", sys.executable, "--holdfast", __file__], capture_output=True, text=True)
        self.assertEqual((ended.returncode, ended.stdout), (1, ""))
        message = f"train.py: another process trains in {self.folder}; wait until it ends, or choose another --out\n"
        self.assertEqual(ended.stderr, message)
        self.assertEqual([one.name for one in self.folder.iterdir()], ["lock"])


if __name__ == "__main__":
    unittest.main()
