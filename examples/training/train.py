"""Trains a model on an environment: starts the server and the policy, warms a tiny model up, and improves it.

    python examples/training/train.py --environment examples/counter

Nothing is downloaded. A run that was stopped or killed continues when the same command is started again.
"""

from __future__ import annotations

import os
import signal
import sys
from multiprocessing import active_children
from types import FrameType

PROCESS = os.getpid()


def end(number: int, frame: FrameType | None = None) -> None:
    """Ends this process and its children at a signal. An exception could be lost in a callback, and files are complete anyway."""
    # A child has the handler for a moment, until it begins its own work.
    if os.getpid() != PROCESS:
        return
    for one in HANDLED:
        signal.signal(one, signal.SIG_IGN)
    for child in active_children():
        child.kill()
    serve = sys.modules.get("holdfast.serve")
    for server in [*getattr(getattr(serve, "Server", None), "running", [])]:
        server.close(patience=5)
    os.write(2, b"stopped; start the same command again to continue\n")
    os._exit(128 + number)


HANDLED = [one for one in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(one) != signal.SIG_IGN]
if __name__ == "__main__":
    # Before the imports, because those of torch can take seconds.
    for one in HANDLED:
        signal.signal(one, end)

import argparse
import hashlib
import json
import math
import time
from pathlib import Path
from typing import IO, NoReturn

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(Path(__file__).resolve().parent)]

try:
    import torch
except ImportError:
    raise SystemExit("training needs torch: pip install torch")
try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

from flags import read_flags, read_inputs, read_settings, refuse
from holdfast.client import Client, HoldfastError
from holdfast.model import TinyConfig, TinyFormat, TinyModel, load_language_model
from holdfast.policy import Policy
from holdfast.serve import Server, ServerError, free_port
from holdfast.trainer import Trainer, TrainingError, load_checkpoint, reading, write_atomically
from holdfast.warmup import imitate, play_randomly, texts_of


def main() -> None:
    flags = read_flags(sys.argv[1:])
    tasks, held_out = read_inputs(flags)
    named = Path(flags.environment)
    folder = Path(flags.out or f"runs/training/{named.name or named.resolve().name}-{flags.credit}-{flags.seed}")
    try:
        with open_folder(folder):
            train(flags, folder, tasks, held_out)
    except HoldfastError as error:
        fail(f"{error}; see {folder / 'server.log'}, then start the same command again")
    except (ServerError, TrainingError) as error:
        fail(str(error))
    print(f"metrics in {folder / 'metrics.jsonl'}")


def train(flags: argparse.Namespace, folder: Path, tasks: list[dict], held_out: list[dict]) -> None:
    torch.manual_seed(flags.seed)
    run = read_run(folder, flags, tasks)
    client = Client(f"http://127.0.0.1:{run['server_port']}", patience=180)
    # Only one server runs at a time, so a restarted server may take over turns after a short lease.
    lease = ["--lease", "5s"]
    start = lambda: Server(flags.environment, folder, run["server_port"], flags.store, flags.node, flags.holdfast, lease)
    server = None
    try:
        if not flags.model and not (folder / "warm.pt").exists():
            server = start()
            warm_up(flags, folder, client, tasks)
        model, format = load_model(flags, folder)
        model.has_static_shapes = model.has_static_shapes and not flags.eager
        try:
            policy = Policy(model, format, port=run["policy_port"], slots=flags.slots)
        except OSError as error:
            problem = f"the policy server cannot listen on port {run['policy_port']}: {error.strerror}"
            raise TrainingError(f"{problem}; end the program that uses the port, and start the same command again") from error
        trainer = Trainer(client, policy, tasks, folder, run["name"], read_settings(flags))
        if trainer.load():
            print(f"continuing {folder} at iteration {trainer.iteration}", flush=True)
        # Starts after `load`: a server that continues rollouts needs the policy, with the weights of that iteration.
        server = server or start()
        trainer.run(print_line)
        if held_out:
            print(f"held-out tasks: {len(held_out)}, reward {trainer.held_out(held_out):.3f}", flush=True)
        policy.close()
    finally:
        if server:
            server.close()


def open_folder(folder: Path) -> IO[str]:
    """Creates the folder and locks it until this process ends."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = open(folder / "lock", "a")
    except OSError as error:
        refuse(f"argument --out: cannot use {folder} as the folder of the run: {error.strerror}; choose another --out")
    try:
        # Children do not inherit a lock of this kind, so none of them can keep it.
        fcntl and fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        fail(f"another process trains in {folder}; wait until it ends, or choose another --out")
    except OSError:
        pass  # This file system has no locks.
    return file


def warm_up(flags: argparse.Namespace, folder: Path, client: Client, tasks: list[dict]) -> None:
    """Creates a tiny model that knows the format of the environment's calls, but cannot solve its tasks yet."""
    begun = time.perf_counter()
    print(f"warm-up: {flags.warmup_episodes} random episodes, then {flags.warmup_steps} steps of imitation", flush=True)
    play = play_randomly(client, tasks, flags.warmup_episodes, flags.seed, flags.warmup_calls)
    format = TinyFormat.from_texts(texts_of(play))
    config = TinyConfig(format.size, flags.width, flags.layers, flags.heads, flags.context)
    model = TinyModel(config).to(flags.device)
    played = time.perf_counter()
    # Imitation uses faster, less precise products. Only the update must compute exactly the sampled log-probabilities.
    torch.set_float32_matmul_precision("high")
    loss = imitate(model, format, play, flags.warmup_steps, flags.warmup_rate, flags.warmup_batch, flags.seed, flags.device)
    torch.set_float32_matmul_precision("highest")
    if not math.isfinite(loss):
        raise TrainingError(f"the warm-up ended with the loss {loss}; start again with a lower --warmup-rate")
    saved = {"words": format.words, "config": vars(config), "model": model.state_dict()}
    write_atomically(folder / "warm.pt", lambda out: torch.save(saved, out))
    size = sum(weight.numel() for weight in model.parameters())
    print(
        f"warm-up: {size:,} weights, {format.size} tokens, {len(play)} random episodes in {played - begun:.1f} s, "
        f"{flags.warmup_steps} steps in {time.perf_counter() - played:.1f} s, loss {loss:.3f}",
        flush=True,
    )


def load_model(flags: argparse.Namespace, folder: Path) -> tuple:
    """Loads the model that --model names, or the tiny model of the warm-up."""
    if flags.model:
        try:
            return load_language_model(flags.model, flags.device, context=flags.context)
        except (OSError, ValueError) as error:
            problem = f"cannot load --model {flags.model}: {(str(error).splitlines() or [''])[0]}"
            raise TrainingError(f"{problem}; pass the folder of a causal language model") from error
    file = folder / "warm.pt"
    with reading(file):
        saved = load_checkpoint(file)
        shape = {f"--{name}": saved["config"][name] for name in ("width", "layers", "heads", "context")}
    # The defaults depend on the device, so only flags that were given are compared.
    refuse_other_run(folder, shape, {flag: getattr(flags, flag[2:]) for flag in shape if flag in flags.given})
    with reading(file):
        model = TinyModel(TinyConfig(**saved["config"])).to(flags.device)
        model.load_state_dict(saved["model"])
        return model.eval(), TinyFormat(saved["words"])


def read_run(folder: Path, flags: argparse.Namespace, tasks: list[dict]) -> dict:
    """Returns the name and the ports of a run. They stay the same after a restart, because open requests contain them."""
    file, named = folder / "run.json", Path(flags.environment).resolve()
    # Names without their folders, because a run and its model may be moved.
    digest = hashlib.sha256(json.dumps(tasks, sort_keys=True).encode()).hexdigest()[:16]
    model = Path(flags.model).resolve().name if flags.model else "tiny"
    environment = f"{named.parent.name}/{named.name}" if named.is_file() else named.name
    about = {"environment": environment, "digest of the tasks": digest, "model": model}
    run = {"name": f"{folder.name}-{int(time.time())}", "server_port": free_port(), "policy_port": free_port(), "about": about}
    if file.exists():
        with reading(file):
            known = json.loads(file.read_bytes())
            ports = {name: int(known[name]) for name in ("server_port", "policy_port")}
            saved = {"name": str(known["name"]), **ports, "about": dict(known.get("about", about))}
        # Nothing can be mixed before there is a model or a checkpoint. Runs of earlier versions do not say what they are about.
        if saved["about"] == about or (folder / "warm.pt").exists() or (folder / "checkpoint.pt").exists():
            refuse_other_run(folder, saved["about"], about)
            return saved
    write_atomically(file, lambda out: out.write(json.dumps(run).encode()))
    return run


def refuse_other_run(folder: Path, known: dict, now: dict) -> None:
    """Refuses flags that would mix two runs in a folder."""
    other = [f"{name}: {known[name]}, now {now[name]}" for name in known if name in now and known[name] != now[name]]
    if other:
        refuse(f"{folder} has another run ({'; '.join(other)}); choose another --out, or repeat the earlier flags")


def print_line(metrics: dict) -> None:
    seconds = metrics["seconds"]
    left_out = f", left out {metrics['left_out']}" if metrics["left_out"] else ""
    # Answers of older weights are not compared.
    compared = "logprob_difference" in metrics
    difference = f"log-prob difference {metrics['logprob_difference']:.1e}  " if compared else ""
    print(
        f"iteration {metrics['iteration']:3d}  reward {metrics['reward']:.3f}  entropy {metrics.get('entropy', 0):.2f}  "
        f"dead {metrics['dead_groups']}, solved {metrics['solved_groups']} of {metrics['tasks']}  "
        f"{difference}"
        f"{metrics['rows']} rows, {metrics['sampled_tokens_total']:,} tokens  sampling {seconds['sampling']:.1f} s, "
        f"environment {seconds['environment']:.1f} to {seconds['engine_idle']:.1f} s, update {seconds['update']:.1f} s{left_out}",
        flush=True,
    )


def fail(problem: str) -> NoReturn:
    print(f"train.py: {problem}", file=sys.stderr)
    raise SystemExit(1)


if __name__ == "__main__":
    main()
