"""Starts `holdfast serve` as a separate process, and starts it again if it dies."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path


class Server:
    """A Holdfast server on this machine. It keeps its store and its port after a restart."""

    def __init__(
        self,
        environment: str,
        folder: str | Path,
        port: int | None = None,
        store: str | None = None,
        node: str | None = None,
        holdfast: str | None = None,
        flags: list[str] | None = None,
    ) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.restarts = 0
        store = store or f"sqlite:{self.folder / 'sessions.db'}"
        arguments = ["serve", environment, "--port", str(self.port), "--store", store]
        self.command = [*find_holdfast(node, holdfast), *arguments, *(flags or [])]
        self.stopped, self._lock = threading.Event(), threading.Lock()
        self.process = self._start()
        self._wait()
        self.thread = threading.Thread(target=self._watch, name="server", daemon=True)
        self.thread.start()

    def _start(self) -> subprocess.Popen[bytes]:
        self.log = self.folder / "server.log"
        with open(self.log, "ab") as log:
            output = {"stdout": log, "stderr": log, "stdin": subprocess.DEVNULL}
            return subprocess.Popen(self.command, **output, env=_environment(), preexec_fn=_end_with_parent)

    def _wait(self, seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                break
            try:
                with urllib.request.urlopen(f"{self.url}/healthz", timeout=2):
                    return
            except OSError:
                time.sleep(0.05)
        lines = self.log.read_text(errors="replace").strip().splitlines()[-10:]
        raise RuntimeError("the Holdfast server did not start:\n" + "\n".join(lines))

    def _watch(self) -> None:
        while True:
            self.process.wait()
            self.stopped.wait(min(5.0, 0.2 * (self.restarts + 1)))
            # The lock prevents a start after `close`, which would leave a server behind.
            with self._lock:
                if self.stopped.is_set():
                    return
                self.restarts += 1
                self.process = self._start()

    def close(self) -> None:
        with self._lock:
            self.stopped.set()
        self.process.terminate()
        try:
            self.process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            self.process.kill()


def _environment() -> dict[str, str]:
    """Gives Node more room for short-lived objects. Rows with token ids are large, and it then collects garbage less often."""
    given = os.environ.get("NODE_OPTIONS", "")
    return {**os.environ, "NODE_OPTIONS": given if "semi-space" in given.replace("_", "-") else f"{given} --max-semi-space-size=64".strip()}


def _end_with_parent() -> None:
    """Lets Linux end the server when this process is killed, so that a second start finds its port free."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def find_holdfast(node: str | None = None, holdfast: str | None = None) -> list[str]:
    """Returns the command that runs Holdfast: the given file, the build in this checkout, or an installed package."""
    checkout = Path(__file__).resolve().parents[2] / "dist" / "cli" / "main.js"
    file = holdfast or os.environ.get("HOLDFAST_CLI") or (str(checkout) if checkout.exists() else None)
    if file:
        found = node or os.environ.get("HOLDFAST_NODE") or shutil.which("node")
        if not found:
            raise RuntimeError("node is not on the PATH; install Node 20.19 or newer, or pass its path with --node")
        return [found, file]
    installed = shutil.which("holdfast")
    if installed:
        return [installed]
    npx = shutil.which("npx")
    if npx:
        return [npx, "holdfast"]
    raise RuntimeError("this checkout of Holdfast is not built, and npx is not on the PATH; run npm run build, or pass --holdfast PATH")


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]
