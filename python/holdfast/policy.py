"""Serves a model under /v1/chat/completions, with token ids and log-probabilities, for rollouts of a trainer.

    python -m holdfast.policy --model PATH --port 8000

`POST /reload {"path": …}`, from this machine only, loads other weights. `GET /health` returns the server's counters.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import ipaddress
import json
import math
import sys
import threading
import time
from collections import deque
from typing import Any

import torch

from .engine import Engine, Sample
from .model import load_language_model, new_call_id

class Policy:
    """A model, its format and its engine, behind HTTP. It runs in threads of this process."""

    def __init__(self, model: Any, format: Any, name: str = "policy", host: str = "127.0.0.1", port: int = 0, slots: int = 512) -> None:
        # The engine needs Python's global lock for every launch, and must not wait long for the thread that reads requests.
        sys.setswitchinterval(0.0002)
        # Requests create many small objects without reference cycles, so the cycle collector runs less often.
        gc.set_threshold(100_000, 50, 50)
        self.model, self.format, self.name = model, format, name
        self.engine = Engine(model, format.stops, slots)
        self.inside, self.since, self.busy = 0, 0.0, 0.0
        self.requests, self.retokenised = 0, 0
        self.finished: deque[tuple[asyncio.Future[Sample], Sample]] = deque()
        self.woken = False
        self.connections: set[Connection] = set()
        self.loop = asyncio.new_event_loop()
        started = threading.Event()
        self.failed: BaseException | None = None
        self.thread = threading.Thread(target=self._run, args=(host, port, started), name="policy", daemon=True)
        self.thread.start()
        started.wait()
        if self.failed:
            self.engine.close()
            self.loop.close()
            raise self.failed

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}/v1"

    def reload(self, state: dict[str, torch.Tensor], version: int | None = None) -> int:
        """Replaces the weights between two blocks of decode steps. Returns their version."""
        check_weights(state, self.model.state_dict())
        with self.engine.model_lock:
            self.model.load_state_dict(state)
            self.engine.version = self.engine.version + 1 if version is None else version
            return self.engine.version

    def busy_seconds(self) -> float:
        """Returns the seconds with at least one open request. The rest of a collection's time is spent in environments."""
        return self.busy + (time.perf_counter() - self.since if self.inside else 0.0)

    def health(self) -> dict[str, Any]:
        engine = self.engine
        return {
            "status": "ok", "model": self.name, "version": engine.version, "requests": self.requests,
            "active": len(engine.active), "waiting": len(engine.waiting), "sampled_tokens": engine.sampled,
            "engine_seconds": round(engine.seconds, 3), "retokenised": self.retokenised,
        }

    def close(self) -> None:
        """Ends the server and its engine. Clients with an open request lose their connection."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(timeout=40)

    # Answers

    def prompt_ids(self, body: dict[str, Any]) -> list[int]:
        """Returns the tokens of a conversation: the recorded tokens up to its last answer, then newly encoded tokens."""
        messages, prefix = body["messages"], body.get("required_prefix_token_ids")
        answers = [at for at, message in enumerate(messages) if message.get("role") == "assistant"]
        if prefix and answers:
            return prefix + self.format.more(messages[answers[-1] + 1 :])
        self.retokenised += len(answers) > 0
        return self.format.prompt(messages, body.get("tools") or [])

    async def complete(self, body: dict[str, Any]) -> dict[str, Any]:
        check_sampling(body)
        prompt = self.prompt_ids(body)
        check_ids(prompt, self.model.vocabulary)
        done: asyncio.Future[Sample] = self.loop.create_future()

        def finish(sample: Sample) -> None:
            # Wakes the event loop once for all answers of a block.
            self.finished.append((done, sample))
            if not self.woken:
                self.woken = True
                self.loop.call_soon_threadsafe(self._deliver)

        limit = body.get("max_tokens") or body.get("max_completion_tokens") or 256
        temperature = body.get("temperature")
        sample = Sample(prompt, limit, 1.0 if temperature is None else float(temperature), finish)
        self.engine.submit(sample)
        try:
            await done
        except asyncio.CancelledError:
            sample.cancelled = True
            raise
        if sample.error:
            raise Refusal(500, sample.error)
        if not all(map(math.isfinite, sample.log_probs)):
            # JSON has no NaN, and a trainer must not learn from such an answer.
            raise Refusal(500, "the model computed log-probabilities that are not finite; check its weights and its dtype")
        return self._completion(body, sample)

    def _deliver(self) -> None:
        self.woken = False
        while self.finished:
            done, sample = self.finished.popleft()
            if not done.done():
                done.set_result(sample)

    def _completion(self, body: dict[str, Any], sample: Sample) -> dict[str, Any]:
        answer = self.format.answer(sample.tokens)
        message: dict[str, Any] = {"role": "assistant", "content": answer.content or None}
        finish = sample.finish
        if answer.calls:
            message["tool_calls"] = [
                {"id": new_call_id(), "type": "function", "function": {"name": name, "arguments": arguments}}
                for name, arguments in answer.calls
            ]
            finish = "tool_calls" if finish == "stop" else finish
        choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": finish, "policy_version": sample.version}
        reply: dict[str, Any] = {
            "id": f"chatcmpl-{new_call_id()}", "object": "chat.completion", "created": int(time.time()), "model": self.name,
            "choices": [choice],
            "usage": {
                "prompt_tokens": len(sample.prompt), "completion_tokens": len(sample.tokens),
                "total_tokens": len(sample.prompt) + len(sample.tokens),
            },
        }
        if body.get("logprobs"):
            choice["logprobs"] = {"content": [{"token": f"token_id:{id}", "logprob": p} for id, p in zip(sample.tokens, sample.log_probs)]}
        if body.get("return_token_ids"):
            reply["prompt_token_ids"], choice["token_ids"] = sample.prompt, sample.tokens
        return reply

    # HTTP

    def _run(self, host: str, port: int, started: threading.Event) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            server = self.loop.run_until_complete(self.loop.create_server(lambda: Connection(self), host, port, backlog=4096))
            self.host, self.port = server.sockets[0].getsockname()[:2]
        except BaseException as error:
            self.failed = error
            return
        finally:
            started.set()
        self.loop.run_forever()
        server.close()
        self.loop.run_until_complete(self._disconnect())
        # Closed before the loop, which the engine wakes for each answer.
        self.engine.close()
        self.loop.close()

    async def _disconnect(self) -> None:
        for connection in self.connections:
            connection.transport.abort()
        # A lost connection cancels its task.
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()}, return_exceptions=True)

    async def answer(self, method: str, path: str, content: bytes, headers: dict[str, str], peer: str) -> tuple[int, dict[str, Any]]:
        try:
            if method == "POST" and path in ("/v1/chat/completions", "/chat/completions"):
                return 200, await self._timed(json.loads(content))
            if method == "POST" and path == "/reload":
                check_reload(headers, peer)
                given = json.loads(content)["path"]
                return 200, {"version": await self.loop.run_in_executor(None, lambda: self.reload(load_weights(given)))}
            if path == "/health":
                return 200, self.health()
            if path == "/v1/models":
                return 200, {"object": "list", "data": [{"id": self.name, "object": "model"}]}
            raise Refusal(404, f"{method} {path} is not a route of this server")
        except Refusal as refusal:
            return refusal.status, {"error": {"message": str(refusal), "type": "invalid_request_error", "code": refusal.status}}
        except Exception as error:  # An error without a reply would leave the client waiting.
            return 400, {"error": {"message": f"invalid request: {error!r}", "type": "invalid_request_error", "code": 400}}

    async def _timed(self, body: dict[str, Any]) -> dict[str, Any]:
        if self.inside == 0:
            self.since = time.perf_counter()
        self.inside += 1
        self.requests += 1
        try:
            return await self.complete(body)
        finally:
            self.inside -= 1
            if self.inside == 0:
                self.busy += time.perf_counter() - self.since


class Connection(asyncio.Protocol):
    """One connection of a client: HTTP/1.1 with content-length, one request at a time."""

    def __init__(self, policy: Policy) -> None:
        self.policy, self.received = policy, bytearray()
        self.task: asyncio.Task[None] | None = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.policy.connections.add(self)

    def data_received(self, data: bytes) -> None:
        self.received += data
        if self.task is None:
            self._next()
        elif len(self.received) > LONGEST_HEAD + LONGEST_BODY:
            self.transport.abort()

    def connection_lost(self, error: Exception | None) -> None:
        self.policy.connections.discard(self)
        if self.task is not None:
            self.task.cancel()

    def _next(self) -> None:
        end = self.received.find(b"\r\n\r\n", 0, LONGEST_HEAD)
        if end < 0:
            if len(self.received) >= LONGEST_HEAD:
                self._reply(431, {"error": {"message": f"the headers are longer than {LONGEST_HEAD} bytes"}}, keep=False)
            return
        first, *lines = self.received[:end].decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        words, size = first.split(" "), headers.get("content-length", "0")
        is_size = size.isascii() and size.isdigit() and len(size) <= 15
        if len(words) != 3 or not is_size or "transfer-encoding" in headers:
            self._reply(400, {"error": {"message": "send HTTP/1.1 with a content-length"}}, keep=False)
            return
        if int(size) > LONGEST_BODY:
            self._reply(413, {"error": {"message": f"the body is longer than {LONGEST_BODY} bytes"}}, keep=False)
            return
        whole = end + 4 + int(size)
        if len(self.received) < whole:
            return
        content = bytes(self.received[end + 4 : whole])
        del self.received[:whole]
        wishes = [one.strip() for one in headers.get("connection", "").lower().split(",")]
        keep = "close" not in wishes and (words[2] != "HTTP/1.0" or "keep-alive" in wishes)
        self.task = self.policy.loop.create_task(self._serve(words[0], words[1].split("?")[0], content, headers, keep))

    async def _serve(self, method: str, path: str, content: bytes, headers: dict[str, str], keep: bool) -> None:
        peer = (self.transport.get_extra_info("peername") or ("",))[0]
        status, reply = await self.policy.answer(method, path, content, headers, peer)
        self.task = None
        self._reply(status, reply, keep, whole=method != "HEAD")
        if keep:
            self._next()

    def _reply(self, status: int, reply: dict[str, Any], keep: bool, whole: bool = True) -> None:
        text = json.dumps(reply, allow_nan=False).encode()
        head = "HTTP/1.1 %d %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\nconnection: %s\r\n\r\n"
        written = (head % (status, REASONS[status], len(text), "keep-alive" if keep else "close")).encode()
        self.transport.write(written + text if whole else written)
        if not keep:
            self.transport.close()


class Refusal(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


REASONS = {
    200: "OK", 400: "Bad Request", 403: "Forbidden", 404: "Not Found", 413: "Content Too Large",
    431: "Request Header Fields Too Large", 500: "Internal Server Error",
}

# In bytes. Without limits, one client could fill the memory of the trainer.
LONGEST_HEAD, LONGEST_BODY = 64 * 1024, 64 * 1024 * 1024


# The values with which a field changes nothing. Other values are refused, because the answer would not be the requested one.
NEUTRAL: dict[str, tuple[Any, ...]] = {
    "response_format": (None, {"type": "text"}),
    "top_p": (None, 1), "top_k": (None, 0, -1), "min_p": (None, 0), "stop": (None, [], ""), "n": (None, 1), "logit_bias": (None, {}),
    "presence_penalty": (None, 0), "frequency_penalty": (None, 0), "repetition_penalty": (None, 1), "tool_choice": (None, "auto", "none"),
}


def check_sampling(body: dict[str, Any]) -> None:
    """Refuses settings that this server does not support."""
    for name, neutral in NEUTRAL.items():
        if body.get(name) not in neutral:
            raise Refusal(400, f"{name}: {json.dumps(body[name])} is not supported by this server; remove the field")
    for name in ("max_tokens", "max_completion_tokens"):
        limit = body.get(name)
        if limit is not None and (type(limit) is not int or limit < 1):
            raise Refusal(400, f"{name}: {json.dumps(limit)} is not a whole number of at least 1")
    temperature = body.get("temperature")
    is_number = temperature is None or type(temperature) in (int, float)
    # Logits divided by a tiny temperature overflow.
    if not is_number or not (temperature in (None, 0) or 1e-3 <= temperature < math.inf):
        raise Refusal(400, f"temperature: {json.dumps(temperature)} is neither 0 nor a number of at least 0.001")


def check_ids(ids: list[int], vocabulary: int) -> None:
    """Refuses a prompt that the model cannot read. In a batch, it would fail the requests of other clients."""
    # A set of types is fast, and has bool apart from int.
    if not ids or set(map(type, ids)) != {int} or min(ids) < 0 or max(ids) >= vocabulary:
        raise Refusal(400, f"the prompt needs token ids from 0 to {vocabulary - 1}; check required_prefix_token_ids")


def check_reload(headers: dict[str, str], peer: str) -> None:
    """Refuses to load a file for another machine, or for a web page in a browser on this machine."""
    try:
        address = ipaddress.ip_address(peer)
        local = (getattr(address, "ipv4_mapped", None) or address).is_loopback
    except ValueError:
        local = False
    if not local:
        raise Refusal(403, "/reload accepts requests only from the server's own machine; send the request to 127.0.0.1")
    if "origin" in headers:
        raise Refusal(403, "/reload refuses requests from web pages; send the request without an Origin header")
    if headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
        raise Refusal(403, "/reload needs the content-type application/json")


def load_weights(path: str) -> dict[str, torch.Tensor]:
    """Reads the weights from a checkpoint of the trainer, or from a file with a state dictionary."""
    saved = torch.load(path, map_location="cpu", **({"weights_only": True} if "weights_only" in torch.load.__doc__ else {}))
    return saved.get("model", saved)


def check_weights(state: dict[str, torch.Tensor], present: dict[str, torch.Tensor]) -> None:
    """Refuses weights that do not fit, before the first one is replaced: `load_state_dict` replaces those that fit."""
    faults = [f"{name} is unknown" for name in state if name not in present]
    for name, now in present.items():
        given = state.get(name)
        shape = list(getattr(given, "shape", []))
        if given is None:
            faults.append(f"{name} is missing")
        elif shape != list(now.shape):
            faults.append(f"{name} has the shape {shape} instead of {list(now.shape)}")
        elif not given.to(now.dtype).isfinite().all():
            faults.append(f"{name} has values that are not finite numbers")
    if faults:
        more = f"; and {len(faults) - 5} more" if len(faults) > 5 else ""
        raise Refusal(400, f"the weights do not fit the model: {'; '.join(faults[:5])}{more}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m holdfast.policy", description="Serve a causal language model for rollouts.")
    parser.add_argument("--model", required=True, help="folder of a causal language model with its tokenizer and chat template")
    parser.add_argument("--name", default="policy", help="name of the model in requests (default: policy)")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--slots", type=int, default=64, help="maximum number of answers that are sampled concurrently (default: 64)")
    parser.add_argument("--context", type=int, default=2048, help="maximum number of tokens in a conversation (default: 2048)")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16", "float16"])
    flags = parser.parse_args()
    model, format = load_language_model(flags.model, flags.device, flags.dtype, flags.context)
    policy = Policy(model, format, flags.name, flags.host, flags.port, flags.slots)
    print(f"listening on {policy.url}", flush=True)
    try:
        policy.thread.join()
    except KeyboardInterrupt:
        policy.close()


if __name__ == "__main__":
    main()
