"""Trains a model on an environment: starts the server and the policy, warms a tiny model up, and improves it.

    python examples/training/train.py --environment examples/counter

Nothing is downloaded. A run that was stopped or killed continues when the same command is started again.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

try:
    import torch
except ImportError:
    raise SystemExit("training needs torch: pip install torch")

from holdfast.client import Client
from holdfast.model import TinyConfig, TinyFormat, TinyModel, load_language_model
from holdfast.policy import Policy
from holdfast.serve import Server, free_port
from holdfast.trainer import Settings, Trainer, load_checkpoint, write_atomically
from holdfast.warmup import imitate, play_randomly, texts_of


def main() -> None:
    flags = read_flags(sys.argv[1:])
    folder = Path(flags.out or f"runs/training/{Path(flags.environment).name}-{flags.credit}-{flags.seed}")
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(flags.seed)
    run, tasks = read_run(folder), read_tasks(flags)
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
        policy = Policy(model, format, port=run["policy_port"], slots=flags.slots)
        trainer = Trainer(client, policy, tasks, folder, run["name"], read_settings(flags))
        if trainer.load():
            print(f"continuing {folder} at iteration {trainer.iteration}", flush=True)
        # Starts after `load`: a server that continues rollouts needs the policy, with the weights of that iteration.
        server = server or start()
        trainer.run(print_line)
        if flags.held_out:
            held_out = read_lines(Path(flags.held_out))
            print(f"held-out tasks: {len(held_out)}, reward {trainer.held_out(held_out):.3f}", flush=True)
        policy.close()
    finally:
        if server:
            server.close()
    print(f"metrics in {folder / 'metrics.jsonl'}")


def warm_up(flags: argparse.Namespace, folder: Path, client: Client, tasks: list[dict]) -> None:
    """Creates a tiny model that knows the format of the environment's calls, but cannot solve its tasks yet."""
    begun = time.perf_counter()
    play = play_randomly(client, tasks, flags.warmup_episodes, flags.seed, flags.warmup_calls)
    format = TinyFormat.from_texts(texts_of(play))
    config = TinyConfig(format.size, flags.width, flags.layers, flags.heads, flags.context)
    model = TinyModel(config).to(flags.device)
    played = time.perf_counter()
    # Imitation uses faster, less precise products. Only the update must compute exactly the sampled log-probabilities.
    torch.set_float32_matmul_precision("high")
    loss = imitate(model, format, play, flags.warmup_steps, flags.warmup_rate, flags.warmup_batch, flags.seed, flags.device)
    torch.set_float32_matmul_precision("highest")
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
        return load_language_model(flags.model, flags.device, context=flags.context)
    saved = load_checkpoint(folder / "warm.pt")
    model = TinyModel(TinyConfig(**saved["config"])).to(flags.device)
    model.load_state_dict(saved["model"])
    return model.eval(), TinyFormat(saved["words"])


def read_run(folder: Path) -> dict:
    """Returns the name and the ports of a run. They stay the same after a restart, because open requests contain them."""
    file = folder / "run.json"
    if file.exists():
        return json.loads(file.read_text())
    run = {"name": f"{folder.name}-{int(time.time())}", "server_port": free_port(), "policy_port": free_port()}
    write_atomically(file, lambda out: out.write(json.dumps(run).encode()))
    return run


def read_tasks(flags: argparse.Namespace) -> list[dict]:
    named = Path(flags.environment)
    folder = named.parent if named.is_file() else named
    given = [Path(flags.task_file)] if flags.task_file else [folder / "tasks_train.jsonl", folder / "tasks.jsonl"]
    file = next((one for one in given if one.exists()), None)
    if file is None:
        raise SystemExit(f"{given[-1]} does not exist; pass a tasks file with --task-file")
    return read_lines(file)


def read_lines(file: Path) -> list[dict]:
    return [json.loads(line) for line in file.read_text().splitlines() if line.strip()]


def read_settings(flags: argparse.Namespace) -> Settings:
    branch = []
    for one in flags.branch or (["4@2"] if flags.credit == "tree" else []):
        ways, step = one.split("@")
        branch.append({"ways": int(ways), "step": int(step)})
    names = ("iterations", "ahead", "tokens", "tasks", "choose", "repeats", "credit", "rate", "updates", "clip", "kl", "entropy",
             "temperature", "discount", "max_tokens", "max_steps", "concurrency", "micro_tokens", "seed", "stop_at")
    return Settings(branch=branch, **{name: getattr(flags, name) for name in names})


def print_line(metrics: dict) -> None:
    seconds = metrics["seconds"]
    left_out = f", left out {metrics['left_out']}" if metrics["left_out"] else ""
    print(
        f"iteration {metrics['iteration']:3d}  reward {metrics['reward']:.3f}  entropy {metrics.get('entropy', 0):.2f}  "
        f"dead {metrics['dead_groups']}, solved {metrics['solved_groups']} of {metrics['tasks']}  "
        f"log-prob difference {metrics.get('logprob_difference', float('nan')):.1e}  "
        f"{metrics['rows']} rows, {metrics['sampled_tokens_total']:,} tokens  sampling {seconds['sampling']:.1f} s, "
        f"environment {seconds['environment']:.1f} to {seconds['engine_idle']:.1f} s, update {seconds['update']:.1f} s{left_out}",
        flush=True,
    )


def read_flags(arguments: list[str]) -> argparse.Namespace:
    # A given model has skills to lose, so it needs small steps. It also needs more memory for each slot and token.
    cuda, given = torch.cuda.is_available(), any(one.split("=")[0] == "--model" for one in arguments)
    fast = cuda and not given
    parser = argparse.ArgumentParser(description="Train a model on an environment.", formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    add = parser.add_argument
    add("--environment", required=True, help="folder or file of an environment")
    add("--task-file", help="tasks file (default: tasks_train.jsonl next to the environment, or tasks.jsonl)")
    add("--held-out", metavar="FILE", help="tasks file for an evaluation after the training; its tasks are not trained on")
    add("--model", help="folder of a causal language model (default: a new tiny model)")
    add("--out", help="folder of the run (default: runs/training/NAME)")
    add("--device", default="cuda" if cuda else "cpu")
    add("--seed", type=int, default=1)
    add("--iterations", type=int, default=60)
    add("--ahead", type=int, choices=[0, 1], default=0, help="1: play the episodes of the next iteration during the update")
    add("--tokens", type=int, default=0, help="stop after this many sampled tokens; 0: no limit")
    add("--stop-at", type=float, default=2.0, help="stop when the mean reward of an iteration reaches this value")
    add("--tasks", type=int, default=64 if cuda else 32, help="number of tasks per iteration")
    add("--choose", choices=["need", "random"], default="need",
        help="how to choose tasks if there are more than --tasks: need prefers tasks that are solved sometimes")
    add("--repeats", type=int, default=16 if cuda else 8, help="number of episodes per task and iteration")
    add("--credit", choices=["outcome", "rloo", "steps", "tree"], default="outcome", help="how answers get their advantages")
    add("--branch", action="append", metavar="WAYS@STEP", help="where --credit tree forks episodes (default: 4@2, 4 ways after step 2)")
    add("--rate", type=float, default=2e-6 if given else 1.5e-4 if cuda else 5e-4,
        help="learning rate at the start; it falls to a tenth by the last iteration")
    add("--updates", type=int, default=8, help="maximum number of optimizer steps per iteration")
    add("--clip", type=float, default=0.2)
    add("--kl", type=float, default=0.0, help="weight of the KL divergence from the initial model; 0 turns it off")
    add("--entropy", type=float, default=0.003, help="weight of an entropy bonus")
    add("--temperature", type=float, default=1.0)
    add("--discount", type=float, default=0.9, help="factor on the reward for each answer after the first, used only for advantages")
    add("--max-tokens", type=int, default=48, help="maximum number of tokens per answer")
    add("--max-steps", type=int, default=16, help="maximum number of answers per episode")
    add("--concurrency", type=int, default=512 if cuda else 128, help="number of concurrent episodes")
    add("--micro-tokens", type=int, default=65536 if fast else 8192, help="maximum number of tokens per forward pass of the update")
    add("--slots", type=int, default=512 if fast else 64, help="maximum number of answers that are sampled concurrently")
    add("--eager", action="store_true", help="sample without CUDA graphs")
    add("--context", type=int, default=1024, help="maximum number of tokens in a conversation")
    add("--width", type=int, default=256 if cuda else 64, help="width of the tiny model")
    add("--layers", type=int, default=4 if cuda else 2)
    add("--heads", type=int, default=8 if cuda else 4)
    add("--warmup-episodes", type=int, default=12000 if cuda else 3000)
    add("--warmup-steps", type=int, default=1500 if cuda else 800)
    add("--warmup-rate", type=float, default=1e-3 if cuda else 4e-3)
    add("--warmup-batch", type=int, default=256 if cuda else 48)
    add("--warmup-calls", type=int, default=12, help="maximum number of calls per random episode")
    add("--store", help="session store (default: an SQLite file in the folder of the run)")
    add("--node", help="path of node (default: from PATH)")
    add("--holdfast", help="path of Holdfast's dist/cli/main.js (default: this checkout, or npx holdfast)")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
