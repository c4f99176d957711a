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


class ServerError(RuntimeError):
    """The server could not be started. The message says why, or has the server's last lines."""


class Server:
    """A Holdfast server on this machine. It keeps its store and its port after a restart."""

    # All servers that this process has started and not closed.
    running: set[Server] = set()

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
        # A signal handler may call `close` while the main thread is in it.
        self.stopped, self._lock = threading.Event(), threading.RLock()
        self.process = self._start()
        self.running.add(self)
        try:
            self._wait()
        except BaseException:
            self.close()
            raise
        self.thread = threading.Thread(target=self._watch, name="server", daemon=True)
        self.thread.start()

    def _start(self) -> subprocess.Popen[bytes]:
        self.log = self.folder / "server.log"
        with open(self.log, "ab") as log:
            self.begin = log.tell()
            output = {"stdout": log, "stderr": log, "stdin": subprocess.DEVNULL}
            return subprocess.Popen(self.command, **output, env=_environment(), preexec_fn=end_with_parent)

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
        lines = self.log.read_bytes()[self.begin :].decode(errors="replace").strip().splitlines()
        # The frames of a JavaScript stack tell a user nothing. server.log has them.
        told = [line for line in lines if not line.lstrip().startswith("at ")][-10:]
        raise ServerError("the Holdfast server did not start:\n" + "\n".join(told or [f"it wrote nothing to {self.log}"]))

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

    def close(self, patience: float = 15) -> None:
        with self._lock:
            self.stopped.set()
        self.process.terminate()
        try:
            self.process.wait(timeout=patience)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.running.discard(self)


def _environment() -> dict[str, str]:
    """Gives Node more room for short-lived objects. Rows with token ids are large, and it then collects garbage less often."""
    given = os.environ.get("NODE_OPTIONS", "")
    return {**os.environ, "NODE_OPTIONS": given if "semi-space" in given.replace("_", "-") else f"{given} --max-semi-space-size=64".strip()}


def end_with_parent() -> None:
    """Lets Linux end a child when this process is killed, so that a second start finds the server's port free."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def find_holdfast(node: str | None = None, holdfast: str | None = None) -> list[str]:
    """Returns the command that runs Holdfast: the given file, the build in this checkout, or an installed package."""
    checkout = Path(__file__).resolve().parents[2] / "dist" / "cli" / "main.js"
    file = holdfast or os.environ.get("HOLDFAST_CLI") or (str(checkout) if checkout.exists() else None)
    if file:
        found = node or os.environ.get("HOLDFAST_NODE") or "node"
        if not shutil.which(found):
            where = "is not on the PATH" if found == "node" else "is not a program"
            raise ServerError(f"{found} {where}; install Node 20.19 or newer, or pass its path with --node")
        if not Path(file).is_file():
            raise ServerError(f"{file} is not a file; pass the path of Holdfast's dist/cli/main.js with --holdfast")
        return [found, file]
    installed = shutil.which("holdfast")
    if installed:
        return [installed]
    npx = shutil.which("npx")
    if npx:
        return [npx, "holdfast"]
    raise ServerError("this checkout of Holdfast is not built, and npx is not on the PATH; run npm run build, or pass --holdfast PATH")


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]
