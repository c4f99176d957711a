"""The tiny model, the engine and the policy server."""

from __future__ import annotations

import gc
import http.client
import itertools
import json
import socket
import tempfile
import threading
import time
import unittest
import urllib.request
from contextlib import suppress
from pathlib import Path
from unittest import mock

from .support import needs_torch

try:
    import torch
    from holdfast.engine import Engine, Sample
    from holdfast.model import Answer, TinyConfig, TinyFormat, TinyModel
    from holdfast.policy import Policy, Refusal, check_reload
except ImportError:
    pass

TEXTS = ["Add 3 to the counter.", 'increment_counter{"count":3}', '{"success":true}', "Done."] * 2


def make(context: int = 128):
    torch.manual_seed(1)
    format = TinyFormat.from_texts(TEXTS)
    return TinyModel(TinyConfig(format.size, 32, 2, 4, context)).eval(), format


def sample_all(engine, prompts, limit=20, temperature=1.0):
    """Samples all prompts at once, and waits. As many join together as there are free slots."""
    done = threading.Semaphore(0)
    samples = [Sample(list(prompt), limit, temperature, lambda _: done.release()) for prompt in prompts]
    with engine.changed:
        for one in samples:
            engine.submit(one)
    for _ in samples:
        assert done.acquire(timeout=60)
    return samples


def fail_second_pass(model):
    """Makes one forward pass fail. The first pass computes prompts."""
    forward, passes = model.forward, itertools.count()

    def fail_once(*given):
        if next(passes) == 1:
            raise RuntimeError("out of memory")
        return forward(*given)

    model.forward = fail_once


def log_probs(model, sample):
    with torch.no_grad():
        logits = model.logits(model(torch.tensor([sample.prompt + sample.tokens])))[0].log_softmax(-1)
    start = len(sample.prompt)
    return [float(logits[start + at - 1, token]) for at, token in enumerate(sample.tokens)]


@needs_torch
class Format(unittest.TestCase):
    def test_a_number_is_one_token_wherever_it_stands(self) -> None:
        format = TinyFormat.from_texts(["Add -4, then 12", 'add{"count":-4}', '{"id":"b-417-1","day":"2026-03-02"}'] * 2)
        for text in ("-4", "12", "-417", "2026"):
            self.assertEqual(len(format.encode(text)), 1, text)
        self.assertIn(format.encode("-4")[0], format.encode('{"count":-4}'))
        self.assertEqual(len(format.encode("12345")), 5)

    def test_any_text_survives(self) -> None:
        format = TinyFormat.from_texts(TEXTS)
        for text in (*TEXTS, "naïve 漢字 <end> <call>", '{"a":"b"}', " x  y\n"):
            self.assertEqual(format.decode(format.encode(text)), text)

    def test_a_text_cannot_contain_special_tokens(self) -> None:
        format = TinyFormat.from_texts(TEXTS)
        self.assertNotIn(format.end, format.encode("<end>"))

    def test_an_answer_survives(self) -> None:
        format = TinyFormat.from_texts(TEXTS)
        for answer in (Answer("Done.", []), Answer("", [("increment_counter", '{"count":3}'), ("get", "{}")])):
            self.assertEqual(format.answer(format.target(answer)), answer)

    def test_a_call_that_cannot_be_read_is_kept(self) -> None:
        format = TinyFormat.from_texts(TEXTS)
        ids = [format.call, *format.encode('increment_counter{"count":'), format.end]
        self.assertEqual(format.answer(ids).calls, [("increment_counter", '{"count":')])


@needs_torch
class Sampling(unittest.TestCase):
    def test_log_probs_equal_those_of_one_forward_pass(self) -> None:
        model, format = make()
        engine = Engine(model, format.stops, slots=4)
        # More requests than slots, of many lengths: they join and leave while others are sampled.
        prompts = [format.encode("Add 3 to the counter. " * (1 + at % 5)) for at in range(13)]
        for sample in sample_all(engine, prompts, limit=30):
            self.assertEqual(len(sample.tokens), len(sample.log_probs))
            for recorded, computed in zip(sample.log_probs, log_probs(model, sample)):
                self.assertAlmostEqual(recorded, computed, places=4)
        engine.close()

    def test_temperature_zero_takes_the_likeliest_token(self) -> None:
        model, format = make()
        engine = Engine(model, format.stops, slots=4)
        first, second = sample_all(engine, [format.encode("Add 3")] * 2, temperature=0.0)
        self.assertEqual(first.tokens, second.tokens)
        engine.close()

    def test_draws_follow_the_probabilities(self) -> None:
        from holdfast.engine import draw

        logits = torch.tensor([[0.0, 1.0, 2.0]]).repeat(20000, 1)
        drawn, found = draw(logits, torch.ones(20000))
        wanted = logits[0].softmax(-1)
        for token in range(3):
            self.assertAlmostEqual(float((drawn == token).float().mean()), float(wanted[token]), delta=0.015)
        self.assertAlmostEqual(float(found[0]), float(wanted[drawn[0]].log()), places=5)

    def test_a_prompt_beyond_the_context_gets_an_empty_answer(self) -> None:
        model, format = make(context=16)
        engine = Engine(model, format.stops, slots=2)
        (sample,) = sample_all(engine, [[1] * 16])
        self.assertEqual((sample.tokens, sample.finish, sample.error), ([], "length", None))
        engine.close()

    def test_a_failed_pass_costs_only_the_requests_in_flight(self) -> None:
        model, format = make(context=64)
        engine = Engine(model, [], slots=4)
        fail_second_pass(model)
        prompt = format.encode("Add 3")
        self.assertEqual([one.error for one in sample_all(engine, [prompt] * 4)], ["sampling failed: out of memory"] * 4)
        # Together longer than the context, so that a row of a failed request would leave it.
        self.assertEqual([sample_all(engine, [prompt])[0].error for _ in range(5)], [None] * 5)
        engine.close()

    def test_a_failed_pass_does_not_answer_a_request_twice(self) -> None:
        model, _ = make()
        # One prompt per pass, and the longest prompt first.
        engine = Engine(model, [], slots=2, prefill_tokens=1)
        fail_second_pass(model)
        errors, answered = [], threading.Semaphore(0)
        with engine.changed:
            for length in (2, 1):
                engine.submit(Sample([1] * length, 1, 1.0, lambda one: (errors.append(one.error), answered.release())))
        for _ in range(2):
            self.assertTrue(answered.acquire(timeout=60))
        sample_all(engine, [[1]])
        self.assertEqual(errors, [None, "sampling failed: out of memory"])
        engine.close()


@needs_torch
class Serving(unittest.TestCase):
    def setUp(self) -> None:
        self.model, self.format = make()
        self.policy = Policy(self.model, self.format, slots=4)

    def tearDown(self) -> None:
        self.policy.close()

    def post(self, path: str, body: dict, timeout: float = 60) -> dict:
        base = self.policy.url.removesuffix("/v1")
        request = urllib.request.Request(base + path, json.dumps(body).encode(), {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=timeout) as reply:
            return json.load(reply)

    def ask(self, messages: list, **more) -> dict:
        return self.post("/v1/chat/completions", {"model": "policy", "messages": messages, "max_tokens": 8, "return_token_ids": True, "logprobs": True, **more})

    def test_answers_with_token_ids_and_log_probs(self) -> None:
        reply = self.ask([{"role": "user", "content": "Add 3 to the counter."}])
        choice = reply["choices"][0]
        self.assertEqual(reply["prompt_token_ids"], self.format.prompt([{"role": "user", "content": "Add 3 to the counter."}], []))
        self.assertEqual(len(choice["token_ids"]), len(choice["logprobs"]["content"]))
        self.assertEqual(reply["usage"]["completion_tokens"], len(choice["token_ids"]))

    def test_tokens_of_earlier_answers_are_kept_as_they_were_sampled(self) -> None:
        user, said = {"role": "user", "content": "Add 3."}, {"role": "assistant", "content": "Done."}
        # "Done." in bytes: the tokenizer would write it as words.
        sampled = [self.format.bytes + byte for byte in b"Done."] + [self.format.end]
        self.assertNotEqual(sampled[:-1], self.format.encode("Done."))
        prefix = self.format.prompt([user], []) + sampled
        reply = self.ask([user, said, {"role": "user", "content": "Add 3."}], required_prefix_token_ids=prefix)
        self.assertEqual(reply["prompt_token_ids"], prefix + self.format.more([user]))
        self.assertEqual(self.policy.health()["retokenised"], 0)

    def test_an_invalid_request_is_refused(self) -> None:
        for path, body in (("/v1/chat/completions", {}), ("/other", {}), ("/reload", {"path": "missing.pt"})):
            with self.assertRaises(urllib.error.HTTPError) as refused:
                self.post(path, body)
            self.assertIn(refused.exception.code, (400, 404))
            self.assertTrue(json.load(refused.exception)["error"]["message"])

    def test_every_invalid_field_is_answered(self) -> None:
        user = {"role": "user", "content": "Add 3."}
        for body in ({"messages": ["Add 3."]}, {"messages": [user], "max_tokens": float("inf")}):
            with self.assertRaises(urllib.error.HTTPError) as refused:
                self.post("/v1/chat/completions", body, timeout=5)
            self.assertEqual(refused.exception.code, 400)

    def test_invalid_token_ids_are_refused_before_they_join_a_batch(self) -> None:
        user, said = {"role": "user", "content": "Add 3."}, {"role": "assistant", "content": "Done."}
        size = self.format.size
        for prefix in ([1, size], [-1], [1, 2.0], ["a"], [True], "abc"):
            with self.assertRaises(urllib.error.HTTPError) as refused:
                self.ask([user, said, user], required_prefix_token_ids=prefix)
            self.assertEqual(refused.exception.code, 400, prefix)
        self.ask([user, said, user], required_prefix_token_ids=[0, size - 1])

    def test_unsupported_sampling_settings_are_refused(self) -> None:
        user = [{"role": "user", "content": "Add 3."}]
        refused_settings = [{"top_p": 0.9}, {"top_k": 20}, {"stop": ["x"]}, {"n": 2}, {"tool_choice": "required"}]
        refused_settings += [{"response_format": {"type": "json_object"}}]
        refused_settings += [{"max_tokens": limit} for limit in (0, -4, 2.7, "7", True, float("inf"))]
        refused_settings += [{"temperature": value} for value in (-1, float("nan"), float("inf"), 1e-4, "1", True)]
        for more in refused_settings:
            with self.assertRaises(urllib.error.HTTPError) as refused:
                self.ask(user, **more)
            self.assertEqual(refused.exception.code, 400)
            self.assertIn(f"{next(iter(more))}: ", json.load(refused.exception)["error"]["message"])
        self.ask(user, top_p=1.0, top_k=-1, stop=None, n=1, tool_choice="auto", stream=False, response_format={"type": "text"})
        self.ask(user, max_tokens=None, max_completion_tokens=1, temperature=1e-3)

    def test_log_probs_that_are_not_finite_fail_the_request(self) -> None:
        with torch.no_grad():
            self.model.norm.scale.fill_(float("nan"))
        with self.assertRaises(urllib.error.HTTPError) as refused:
            self.ask([{"role": "user", "content": "Add 3."}])
        self.assertEqual(refused.exception.code, 500)
        self.assertIn("not finite", json.load(refused.exception)["error"]["message"])

    def test_weights_are_not_replaced_for_web_pages_or_other_machines(self) -> None:
        json_type = {"content-type": "application/json"}
        for headers in ({"content-type": "text/plain"}, {**json_type, "origin": "http://127.0.0.1:3000"}):
            base = self.policy.url.removesuffix("/v1")
            request = urllib.request.Request(f"{base}/reload", b'{"path":"missing.pt"}', headers)
            with self.assertRaises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(request, timeout=60)
            self.assertEqual(refused.exception.code, 403)
        for peer in ("10.0.0.7", "fe80::1%eth0", "::ffff:10.0.0.7", ""):
            with self.assertRaises(Refusal):
                check_reload(json_type, peer)
        for peer in ("127.0.0.1", "::1", "::ffff:127.0.0.1"):
            check_reload(json_type, peer)
        self.assertEqual(self.policy.health()["version"], 0)

    def test_weights_are_replaced_while_it_serves(self) -> None:
        user = [{"role": "user", "content": "Add 3 to the counter."}]
        before = self.ask(user, temperature=0)
        other = TinyModel(self.model.config)
        with tempfile.TemporaryDirectory() as folder:
            torch.save({"model": other.state_dict()}, Path(folder) / "other.pt")
            self.assertEqual(self.post("/reload", {"path": f"{folder}/other.pt"}), {"version": 1})
        after = self.ask(user, temperature=0)
        self.assertNotEqual(before["choices"][0]["logprobs"], after["choices"][0]["logprobs"])
        self.assertEqual([one["choices"][0]["policy_version"] for one in (before, after)], [0, 1])

    def test_weights_that_do_not_fit_replace_nothing(self) -> None:
        before = {name: weight.clone() for name, weight in self.model.state_dict().items()}
        first, last = list(before)[0], list(before)[-1]
        changed = {name: weight + 1 for name, weight in before.items()}
        wrong = {
            "is unknown": {**changed, "other": changed[last]},
            "is missing": {name: weight for name, weight in changed.items() if name != last},
            "has the shape [3] instead of [32]": {**changed, last: torch.ones(3)},
            "not finite": {**changed, first: changed[first] * float("nan")},
        }
        with tempfile.TemporaryDirectory() as folder:
            for says, state in wrong.items():
                torch.save(state, Path(folder) / "other.pt")
                with self.assertRaises(urllib.error.HTTPError) as refused:
                    self.post("/reload", {"path": f"{folder}/other.pt"})
                self.assertEqual(refused.exception.code, 400)
                for name, weight in self.model.state_dict().items():
                    self.assertTrue(torch.equal(weight, before[name]), f"{says}: {name}")
                self.assertIn(says, json.load(refused.exception)["error"]["message"])
        self.assertEqual(self.policy.health()["version"], 0)

    def raw(self, text: str) -> bytes:
        """Sends a text, and returns all bytes up to the end of the connection."""
        with socket.create_connection((self.policy.host, self.policy.port), timeout=5) as connection:
            connection.sendall(text.encode("latin-1"))
            return b"".join(iter(lambda: connection.recv(65536), b""))

    def test_a_malformed_or_endless_request_is_refused_and_closes_its_connection(self) -> None:
        sizes = {"\u00b2": 400, "-1": 400, "9" * 16: 400, "9" * 5000: 400, str(64 * 1024 * 1024 + 1): 413}
        for size, status in sizes.items():
            reply = self.raw(f"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: {size}\r\n\r\n")
            self.assertTrue(reply.startswith(f"HTTP/1.1 {status} ".encode()), reply)
        start = "GET /health HTTP/1.1\r\nx: "
        self.assertTrue(self.raw(start + "x" * (64 * 1024 - len(start))).startswith(b"HTTP/1.1 431 "))

    def test_a_client_that_keeps_sending_while_its_request_is_open_is_disconnected(self) -> None:
        body = '{"messages":[]}'
        text = f"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: {len(body)}\r\n\r\n{body}" + "x" * 1_000_000
        with self.policy.engine.model_lock, mock.patch("holdfast.policy.LONGEST_BODY", 100), suppress(ConnectionError):
            self.assertEqual(self.raw(text), b"")

    def test_a_connection_closes_when_the_client_asks_for_it(self) -> None:
        for rest in ("1.1\r\nConnection: keep-alive, Close", "1.0"):
            self.assertIn(b"connection: close", self.raw(f"GET /health HTTP/{rest}\r\n\r\n"))
        both = self.raw("GET /health HTTP/1.0\r\nconnection: keep-alive\r\n\r\nGET /health HTTP/1.0\r\n\r\n")
        self.assertEqual(both.count(b"HTTP/1.1 200 OK"), 2)

    def test_a_reply_to_head_has_no_body(self) -> None:
        self.assertTrue(self.raw("HEAD /health HTTP/1.0\r\n\r\n").endswith(b"\r\n\r\n"))

    def test_a_closed_server_disconnects_its_clients(self) -> None:
        policy = Policy(*make(), slots=4)
        forward = policy.model.forward
        policy.model.forward = lambda *given: (time.sleep(0.02), forward(*given))[1]
        policy.engine.stops.clear()
        failures = []

        def ask() -> None:
            body = b'{"messages":[],"max_tokens":100}'
            try:
                urllib.request.urlopen(f"{policy.url}/chat/completions", body, timeout=10)
            except OSError as error:
                failures.append(error)

        clients = [threading.Thread(target=ask) for _ in range(3)]
        for client in clients:
            client.start()
        while len(policy.engine.active) < 3:
            time.sleep(0.001)
        with self.assertNoLogs("asyncio"), mock.patch("threading.excepthook") as unhandled:
            policy.close()
            for client in clients:
                client.join()
            del policy, forward
            gc.collect()
        self.assertEqual([type(one) for one in failures], [http.client.RemoteDisconnected] * 3)
        unhandled.assert_not_called()

    def test_many_requests_at_once_are_all_answered(self) -> None:
        replies = []
        ask = lambda: replies.append(self.ask([{"role": "user", "content": "Add 3."}])["usage"]["completion_tokens"])
        workers = [threading.Thread(target=ask) for _ in range(24)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        self.assertEqual(len(replies), 24)
        self.assertEqual(self.policy.health()["sampled_tokens"], sum(replies))


if __name__ == "__main__":
    unittest.main()
