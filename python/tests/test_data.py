"""Rows become episodes, and groups of episodes advantages."""

from __future__ import annotations

import unittest

from holdfast.data import Collected, grpo, per_step, read_row, rloo, tree


def row(task=0, repeat=0, reward=0.0, answers=(("a", [1, 2], [3, 4]), ("b", [1, 2, 3, 4, 9], [5])), **more):
    """Answers are (call id, prompt ids, sampled ids)."""
    output = []
    for call, prompt, sampled in answers:
        logprobs = {"content": [{"logprob": -0.5} for _ in sampled]}
        output.append({"type": "function_call", "call_id": call, "prompt_token_ids": prompt, "token_ids": sampled, "logprobs": logprobs})
        output.append({"type": "function_call_output", "call_id": call, "output": "{}"})
    return {"_ng_task_index": task, "_ng_rollout_index": repeat, "reward": reward, "session_id": f"{task}-{repeat}", "response": {"output": output}, **more}


def advantages(group):
    return [[round(step.advantage, 4) for step in episode.steps] for episode in group]


def episodes(*rows, branch=()):
    collected = Collected(branch=branch)
    collected.add(rows)
    assert not collected.left_out, collected.left_out
    return collected.episodes


class Reading(unittest.TestCase):
    def test_a_row_becomes_the_tokens_of_its_conversation(self) -> None:
        episode = read_row(row(reward=1))
        self.assertEqual(episode.tokens, [1, 2, 3, 4, 9, 5])
        self.assertEqual([(step.start, step.end, step.calls) for step in episode.steps], [(2, 4, ["a"]), (5, 6, ["b"])])
        self.assertEqual(episode.log_probs, [0, 0, -0.5, -0.5, 0, -0.5])
        self.assertEqual(episode.sampled, 3)

    def test_an_answer_tells_which_weights_sampled_it(self) -> None:
        given = row()
        given["response"]["output"][2]["policy_version"] = 7
        self.assertEqual([step.version for step in read_row(given).steps], [None, 7])

    def test_names_of_nemo_gym_are_read_too(self) -> None:
        given = row()
        for item in given["response"]["output"][::2]:
            item["generation_token_ids"] = item.pop("token_ids")
            item["generation_log_probs"] = [one["logprob"] for one in item.pop("logprobs")["content"]]
        self.assertEqual(read_row(given), read_row(row()))

    def test_rows_that_cannot_be_trained_on_are_left_out_and_counted(self) -> None:
        collected = Collected()
        broken = row(answers=(("a", [1, 2], [3, 4]), ("b", [1, 2, 8, 4, 9], [5])))
        no_log_probs = row()
        no_log_probs["response"]["output"][0]["logprobs"] = None
        collected.add([row(), row(mask_sample=True), row(reward=None), broken, row(mask_sample=True, token_chain="broken"), no_log_probs, row(answers=()), row(harness={"name": "h", "main": "ambiguous"})])
        self.assertEqual(len(collected.episodes), 1)
        self.assertEqual(dict(collected.left_out), {"masked": 1, "no reward": 1, "broken tokens": 2, "no log-probs": 1, "no tokens": 1, "ambiguous transcript": 1})

    def test_rows_with_invalid_tokens_or_log_probs_are_broken(self) -> None:
        def first(**fields):
            given = row()
            given["response"]["output"][0].update(fields)
            return read_row(given)

        for wrong in (None, "-0.5", float("nan"), float("-inf"), True):
            self.assertEqual(first(logprobs={"content": [{"logprob": -0.5}, {"logprob": wrong}]}), "broken tokens", wrong)
        for wrong in ([3, None], [3, "4"], [3, 4.0], [3, -4], [3, True]):
            self.assertEqual(first(token_ids=wrong), "broken tokens", wrong)
        self.assertEqual(first(prompt_token_ids=[1, "2"]), "broken tokens")
        self.assertEqual(first(prompt_token_ids=None), "broken tokens")
        self.assertEqual(read_row({**row(), "response": None}), "no tokens")
        self.assertEqual(read_row(row(reward=float("nan"))), "no reward")

    def test_no_episodes_have_metrics_too(self) -> None:
        metrics = Collected().metrics(0)
        self.assertEqual((metrics["reward"], metrics["rows"], metrics["steps"]), (0, 0, 0))

    def test_a_forked_row_needs_the_tokens_of_every_answer_with_calls(self) -> None:
        for missing in (0, 2):
            forked = row(branch="0", forked_at=2)
            del forked["response"]["output"][missing]["prompt_token_ids"]
            for step in (1, 2):
                self.assertEqual(read_row(forked, [{"ways": 2, "step": step}]), "no tokens")


class Credit(unittest.TestCase):
    def test_grpo_compares_with_mean_and_deviation(self) -> None:
        group = episodes(row(reward=1), row(repeat=1, reward=0))
        grpo(group)
        self.assertEqual(advantages(group), [[0.7071, 0.7071], [-0.7071, -0.7071]])

    def test_grpo_of_equal_rewards_is_zero(self) -> None:
        group = episodes(row(reward=1), row(repeat=1, reward=1))
        grpo(group)
        self.assertEqual(advantages(group), [[0, 0], [0, 0]])

    def test_rloo_compares_with_the_others(self) -> None:
        group = episodes(row(reward=1), row(repeat=1, reward=0), row(repeat=2, reward=0))
        rloo(group)
        self.assertEqual([one[0] for one in advantages(group)], [1, -0.5, -0.5])

    def test_a_discount_prefers_the_shorter_of_two_solved_episodes(self) -> None:
        short = row(repeat=0, reward=1.0, answers=(("a", [1, 2], [3, 4]),))
        collected = Collected(episodes(short, row(repeat=1, reward=1.0)))
        collected.credit(grpo)
        self.assertEqual(advantages(collected.episodes), [[0], [0, 0]])
        collected.credit(grpo, discount=0.9)
        shorter, longer = advantages(collected.episodes)
        self.assertAlmostEqual(shorter[0], 0.5)
        self.assertAlmostEqual(longer[0], -0.5)

    def test_a_discount_makes_a_negative_reward_worse_with_each_answer(self) -> None:
        short = row(repeat=0, reward=-1.0, answers=(("a", [1, 2], [3, 4]),))
        collected = Collected(episodes(short, row(repeat=1, reward=-1.0)))
        collected.credit(rloo, discount=0.9)
        shorter, longer = advantages(collected.episodes)
        self.assertEqual((shorter[0], longer[0]), (0.1, -0.1))

    def test_groups_are_tasks(self) -> None:
        collected = Collected()
        collected.add([row(task=0, reward=1), row(task=1, reward=0), row(task=0, repeat=1, reward=0)])
        collected.credit(rloo)
        self.assertEqual([one[0] for one in advantages(collected.episodes)], [1, 0, -1])

    def test_steps_blame_the_call_that_lost_the_reward(self) -> None:
        rewards = lambda *values: [{"version": 1, "reward": 0}] + [{"version": 2, "reward": value, "call": call} for call, value in zip("ab", values)]
        group = episodes(row(reward=0, step_rewards=rewards(1, 0)), row(repeat=1, reward=1, step_rewards=rewards(1, 1)))
        per_step(group, discount=1)
        (won, lost), (_, kept) = advantages(group)
        self.assertLess(lost, 0)
        self.assertGreater(kept, 0)
        per_step(group, discount=0)
        self.assertEqual(advantages(group)[0][0], advantages(group)[1][0])

    def test_steps_use_the_discount(self) -> None:
        # The example of docs/training.md: the second call solves the task, and the third call of the second episode spoils it.
        answers = (("a", [1], [2]), ("b", [1, 2], [3]), ("c", [1, 2, 3], [4]))
        rewards = lambda *values: [{"reward": 0}] + [{"reward": value, "call": call} for call, value in zip("abc", values)]
        collected = Collected(episodes(
            row(reward=1, answers=answers, step_rewards=rewards(0, 1, 1)),
            row(repeat=1, reward=0, answers=answers, step_rewards=rewards(0, 1, 0))))
        collected.credit(per_step, discount=0.9)
        self.assertEqual([[round(one, 2) for one in each] for each in advantages(collected.episodes)], [[0.56, 0.62, 0.69], [-0.56, -0.62, -0.69]])
        collected.credit(per_step, discount=1)
        self.assertEqual(len({abs(one) for each in advantages(collected.episodes) for one in each}), 1)

    def test_the_steps_of_a_group_of_one_have_no_advantage(self) -> None:
        group = episodes(row(reward=1, step_rewards=[{"reward": 0}, {"reward": 0.2, "call": "a"}, {"reward": 1, "call": "b"}]))
        per_step(group, 0.9)
        self.assertEqual(advantages(group), [[0, 0]])

    def test_a_call_without_an_entry_keeps_the_reward(self) -> None:
        episode = read_row(row(reward=1, step_rewards=[{"version": 1, "reward": 0}, {"version": 2, "reward": 1, "call": "b"}]))
        self.assertEqual([(step.before, step.after) for step in episode.steps], [(0, 0), (0, 1)])

    def test_trees_credit_each_part_with_the_means_below_it(self) -> None:
        leaf = lambda repeat, branch, last, reward: row(
            repeat=repeat, reward=reward, branch=branch, forked_at=2, parent="p",
            answers=(("call_0", [1, 2], [3]), ("call_1", [1, 2, 3, 9], [last])))
        # This episode ended before its fork. Its call has the same id, as on servers that count the calls.
        other = row(repeat=2, reward=0, answers=(("call_0", [1, 2], [7]),))
        group = episodes(leaf(0, "0", 5, 1), leaf(1, "1", 6, 0), other, branch=[{"ways": 2, "step": 1}])
        tree(group)
        # The roots are worth 0.5 and 0, so 0.25 on average; the deviation of the rewards is 0.5774.
        self.assertEqual(advantages(group), [[0.433, 0.866], [0.433, -0.866], [-0.433]])
        # The shared answer is trained on once.
        self.assertEqual([[step.trained for step in one.steps] for one in group], [[True, True], [False, True], [True]])

    def test_trees_that_differ_only_in_length_have_small_advantages(self) -> None:
        group = episodes(row(reward=1), row(repeat=1, reward=1))
        group[0].value, group[1].value = 0.9, 0.92
        tree(group)
        self.assertEqual(advantages(group), [[-0.1, -0.1], [0.1, 0.1]])

    def test_the_mean_reward_counts_each_tree_once(self) -> None:
        leaf = lambda repeat: row(repeat=repeat, reward=1, branch=str(repeat), forked_at=2, parent="p")
        collected = Collected(branch=[{"ways": 3, "step": 1}])
        collected.add([leaf(0), leaf(1), leaf(2), row(repeat=3, reward=0)])
        self.assertEqual(collected.reward(), 0.5)


if __name__ == "__main__":
    unittest.main()
