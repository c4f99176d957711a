"""The flags of train.py and the files that they name. All are checked before a run creates anything."""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path
from typing import Any, Callable, NoReturn

import torch

from holdfast.serve import ServerError, find_holdfast
from holdfast.trainer import Settings

# A server refuses larger numbers of tasks, repeats and concurrent episodes.
MOST = 100_000


def read_flags(arguments: list[str]) -> argparse.Namespace:
    # A given model has skills to lose, so it needs small steps. It also needs more memory for each slot and token.
    cuda, given = torch.cuda.is_available(), any(one.split("=")[0] == "--model" for one in arguments)
    fast = cuda and not given
    parser = argparse.ArgumentParser(
        description="Train a model on an environment.", formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        usage="%(prog)s --environment PATH [flags]; --help lists the flags", allow_abbrev=False,
    )
    add = parser.add_argument
    whole, count, share = integer(0), integer(1), number(0, 1)
    add("--environment", required=True, help="folder or file of an environment")
    add("--task-file", help="tasks file (default: tasks_train.jsonl next to the environment, or tasks.jsonl)")
    add("--held-out", metavar="FILE", help="tasks file for an evaluation after the training; its tasks are not trained on")
    add("--model", help="folder of a causal language model (default: a new tiny model)")
    add("--out", help="folder of the run (default: runs/training/NAME)")
    add("--device", type=device, default="cuda" if cuda else "cpu")
    add("--seed", type=integer(0, 2**31), default=1)
    add("--iterations", type=count, default=60)
    add("--ahead", type=int, choices=[0, 1], default=0, help="1: play the episodes of the next iteration during the update")
    add("--tokens", type=whole, default=0, help="stop after this many sampled tokens; 0: no limit")
    add("--stop-at", type=number(), default=2.0, help="stop when the mean reward of an iteration reaches this value")
    add("--tasks", type=integer(1, MOST), default=64 if cuda else 32, help="number of tasks per iteration")
    add("--choose", choices=["need", "random"], default="need",
        help="how to choose tasks if there are more than --tasks: need prefers tasks that are solved sometimes")
    add("--repeats", type=integer(1, MOST), default=16 if cuda else 8, help="number of episodes per task and iteration")
    add("--credit", choices=["outcome", "rloo", "steps", "tree"], default="outcome", help="how answers get their advantages")
    add("--branch", type=fork, action="append", metavar="WAYS@STEP",
        help="where --credit tree or steps forks episodes (default for tree: 4@2, 4 ways after step 2)")
    add("--rate", type=number(0, 1), default=2e-6 if given else 1.5e-4 if cuda else 5e-4,
        help="learning rate at the start; it falls to a tenth by the last iteration")
    add("--updates", type=count, default=8, help="maximum number of optimizer steps per iteration")
    add("--clip", type=share, default=0.2)
    add("--kl", type=number(0), default=0.0, help="weight of the KL divergence from the initial model; 0 turns it off")
    add("--entropy", type=number(0), default=0.003, help="weight of an entropy bonus")
    add("--temperature", type=number(0.01, 100), default=1.0)
    add("--discount", type=share, default=0.9,
        help="factor on the reward for each answer after the first, used only for advantages")
    add("--max-tokens", type=count, default=48, help="maximum number of tokens per answer")
    add("--max-steps", type=count, default=16, help="maximum number of answers per episode")
    add("--concurrency", type=integer(1, MOST), default=512 if cuda else 128, help="number of concurrent episodes")
    add("--micro-tokens", type=count, default=65536 if fast else 8192,
        help="maximum number of tokens per forward pass of the update")
    add("--slots", type=integer(1, MOST), default=512 if fast else 64,
        help="maximum number of answers that are sampled concurrently")
    add("--eager", action="store_true", help="sample without CUDA graphs")
    add("--context", type=integer(16), default=1024, help="maximum number of tokens in a conversation")
    add("--width", type=count, default=256 if cuda else 64, help="width of the tiny model")
    add("--layers", type=count, default=4 if cuda else 2)
    add("--heads", type=count, default=8 if cuda else 4)
    add("--warmup-episodes", type=count, default=12000 if cuda else 3000)
    add("--warmup-steps", type=whole, default=1500 if cuda else 800)
    add("--warmup-rate", type=number(0, 1), default=1e-3 if cuda else 4e-3)
    add("--warmup-batch", type=count, default=256 if cuda else 48)
    add("--warmup-calls", type=count, default=12, help="maximum number of calls per random episode")
    add("--store", help="session store (default: an SQLite file in the folder of the run)")
    add("--node", help="path of node (default: from PATH)")
    add("--holdfast", help="path of Holdfast's dist/cli/main.js (default: this checkout, or npx holdfast)")
    flags = parser.parse_args(arguments)
    flags.given = {one.split("=")[0] for one in arguments if one.startswith("--")}
    if not flags.model and flags.width % (2 * flags.heads):
        # Rotary positions turn pairs of numbers, so a head has an even width.
        parser.error(f"argument --width: {flags.width} is not a multiple of twice --heads, which is {2 * flags.heads}")
    if flags.branch and flags.credit != "tree":
        problem = f"{flags.credit} would train on the answers before a fork several times"
        parser.error(f"argument --branch: needs --credit tree; {problem}")
    if flags.credit == "tree" and not flags.branch:
        flags.branch = [{"ways": 4, "step": 2}]
    steps = [one["step"] for one in flags.branch or []]
    if len(set(steps)) < len(steps):
        parser.error("argument --branch: names a step twice; name each step once")
    if steps and max(steps) >= flags.max_steps:
        parser.error(f"argument --branch: step {max(steps)} is not below --max-steps, so no step would follow the fork")
    return flags


def integer(least: int, most: int | None = None) -> Callable[[str], int]:
    def read(text: str) -> int:
        wanted = f"an integer of at least {least}" if most is None else f"an integer from {least} to {most}"
        value = _parse(int, text, wanted)
        if value < least or (most is not None and value > most):
            raise argparse.ArgumentTypeError(f"{text} is not {wanted}")
        return value

    return read


def number(least: float = -math.inf, most: float = math.inf) -> Callable[[str], float]:
    def read(text: str) -> float:
        wanted = "a finite number"
        if least > -math.inf:
            wanted = f"a number of at least {least:g}" if most == math.inf else f"a number from {least:g} to {most:g}"
        value = _parse(float, text, wanted)
        if not math.isfinite(value) or not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{text} is not {wanted}")
        return value

    return read


def _parse(kind: Callable[[str], Any], text: str, wanted: str) -> Any:
    try:
        return kind(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not {wanted}") from None


def fork(text: str) -> dict[str, int]:
    parts = text.split("@")
    if len(parts) != 2 or not all(one.isdecimal() for one in parts) or int(parts[0]) < 2 or int(parts[1]) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not WAYS@STEP, with at least 2 ways and a step of at least 1, such as 4@2")
    return {"ways": int(parts[0]), "step": int(parts[1])}


def device(text: str) -> str:
    try:
        named = torch.device(text)
        # The warm-up forks this process, so CUDA is only asked what it has, and not used yet.
        is_cuda = named.type == "cuda"
        usable = (named.index or 0) < torch.cuda.device_count() if is_cuda else torch.zeros(1, device=named).item() == 0
    except (RuntimeError, AssertionError, NotImplementedError):
        usable = False
    if not usable:
        known = "cpu or cuda" if torch.cuda.is_available() else "cpu"
        raise argparse.ArgumentTypeError(f"torch has no device {text!r} on this machine; use {known}")
    return text


def refuse(problem: str) -> NoReturn:
    print(f"{Path(sys.argv[0]).name}: error: {problem}", file=sys.stderr)
    raise SystemExit(2)


def read_inputs(flags: argparse.Namespace) -> tuple[list[dict], list[dict]]:
    """Checks the files that flags name, and returns the tasks of the training and the held-out tasks."""
    named = Path(flags.environment)
    if not named.exists():
        refuse(f"argument --environment: {named} does not exist; pass the folder or the file of an environment")
    if flags.model and not Path(flags.model).is_dir():
        refuse(f"argument --model: {flags.model} is not a folder; pass the folder of a causal language model")
    try:
        find_holdfast(flags.node, flags.holdfast)
    except ServerError as error:
        refuse(str(error))
    return read_tasks(flags), read_lines(Path(flags.held_out), "--held-out") if flags.held_out else []


def read_tasks(flags: argparse.Namespace) -> list[dict]:
    named = Path(flags.environment)
    folder = named.parent if named.is_file() else named
    given = [Path(flags.task_file)] if flags.task_file else [folder / "tasks_train.jsonl", folder / "tasks.jsonl"]
    file = next((one for one in given if one.exists()), None)
    if file is None and not flags.task_file:
        refuse(f"{folder} has no tasks_train.jsonl or tasks.jsonl; check --environment, or pass a tasks file with --task-file")
    return read_lines(file or given[0], "--task-file")


def read_lines(file: Path, flag: str) -> list[dict]:
    """Reads a tasks file: on each line, a row in JSON with a prompt."""
    try:
        lines = file.read_text(encoding="utf-8-sig").split("\n")
    except OSError as error:
        refuse(f"argument {flag}: cannot read {file}: {error.strerror}; pass a tasks file")
    except UnicodeDecodeError:
        refuse(f"argument {flag}: {file} is not a text in UTF-8; pass a tasks file")
    rows = []
    for at, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            refuse(f"argument {flag}: line {at} of {file} is not JSON: {error}")
        params = row.get("responses_create_params") if isinstance(row, dict) else None
        if not isinstance(params, dict) or not isinstance(params.get("input"), (str, list)):
            refuse(f"argument {flag}: line {at} of {file} has no prompt; a task needs responses_create_params with an input")
        rows.append(row)
    return rows or refuse(f"argument {flag}: {file} has no tasks; write one task per line")


def read_settings(flags: argparse.Namespace) -> Settings:
    names = ("iterations", "ahead", "tokens", "tasks", "choose", "repeats", "credit", "rate", "updates", "clip", "kl", "entropy",
             "temperature", "discount", "max_tokens", "max_steps", "concurrency", "micro_tokens", "seed", "stop_at")
    return Settings(branch=flags.branch or [], **{name: getattr(flags, name) for name in names})
