"""What the tests share: a served example, and the reason why a test is skipped."""

from __future__ import annotations

import importlib.util
import json
import shutil
import tempfile
import unittest
from pathlib import Path
from typing import Any

from holdfast.client import Client
from holdfast.serve import Server, find_holdfast

ROOT = Path(__file__).resolve().parents[2]
COUNTER = ROOT / "examples" / "counter"
ANSWERS = ROOT / "python" / "tests" / "answers"
MEETING = ROOT / "python" / "tests" / "meeting"
TASK = {"initial_count": 3, "expected_count": 5}

needs_torch = unittest.skipUnless(importlib.util.find_spec("torch"), "torch is not installed")


def needs_server(case: type) -> type:
    """Skips the tests of a class where Holdfast is not built or Node is missing."""
    try:
        find_holdfast()
        reason = None
    except RuntimeError as error:
        reason = str(error)
    return case if reason is None else unittest.skip(reason)(case)


class ServedCase(unittest.TestCase):
    """A class of tests with a server of an example, on a store in a folder of its own."""

    example: Path = COUNTER
    store: str | None = None
    flags: list[str] = []

    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = Path(tempfile.mkdtemp(prefix="holdfast-python-"))
        cls.server = Server(str(cls.example), cls.folder, store=cls.store, flags=cls.flags)

    def connect(self, url: str | None = None, **options: Any) -> Client:
        client = Client(url or self.server.url, **options)
        self.addCleanup(client.close)
        return client

    @classmethod
    def tearDownClass(cls) -> None:
        cls.server.close()
        shutil.rmtree(cls.folder, ignore_errors=True)


def counter_tasks() -> list[dict]:
    return [json.loads(line) for line in (COUNTER / "tasks.jsonl").read_text().splitlines()]
