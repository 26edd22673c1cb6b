"""Draft trees through a causal LM of transformers: mask, positions, KV cache."""

import random

import pytest
import torch
from hf_models import llama
from transformers import MambaConfig, MambaForCausalLM, MistralConfig, MistralForCausalLM

import specverify as sv
from specverify.hf import TreeModel, UnsupportedModelError, shapes


def full(model, tokens):
    """Logits of the last position, computed without a cache and without a tree."""
    with torch.inference_mode():
        return model(torch.tensor([tokens])).logits[0, -1]


def random_parents(n, rng):
    return [rng.randrange(-1, i) if i else -1 for i in range(n)]


def path_of(parents, node):
    path = []
    while node >= 0:
        path.append(node)
        node = parents[node]
    return path[::-1]


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_every_row_of_a_tree_equals_a_plain_forward_over_its_path(attention):
    model = llama(attention=attention)
    rng = random.Random(1)
    for n in (1, 2, 7, 20, 70):
        prefix = [rng.randrange(128) for _ in range(rng.randrange(1, 12))]
        parents, tokens = random_parents(n, rng), [rng.randrange(128) for _ in range(n)]
        tree = TreeModel(model)
        tree.prefill(prefix)
        logits = tree.forward(tokens, parents)
        for node in range(n):
            path = [tokens[i] for i in path_of(parents, node)]
            torch.testing.assert_close(logits[node], full(model, prefix + path), rtol=1e-4, atol=1e-4)


def test_slots_added_in_two_calls_equal_slots_added_in_one():
    model = llama()
    once, twice = TreeModel(model), TreeModel(model)
    for tree in (once, twice):
        tree.prefill([3, 1, 4])
    together = once.forward([5, 9, 2, 6, 5], [-1, 0, 0, 2, 1])
    first = twice.forward([5, 9], [-1, 0])
    second = twice.forward([2, 6, 5], [0, 2, 1])
    torch.testing.assert_close(torch.cat([first, second]), together, rtol=1e-4, atol=1e-4)


def test_case_21_changing_a_sibling_leaves_the_other_alone():
    """sgl-project/sglang #20278: an ignored mask is silent garbage."""
    model = llama()
    rows = []
    for sibling in (9, 10):
        tree = TreeModel(model)
        tree.prefill([3, 1, 4])
        rows.append(tree.forward([5, sibling, 2, 7], [-1, 0, 0, 1]))
    assert torch.equal(rows[0][[0, 2]], rows[1][[0, 2]])
    assert not torch.equal(rows[0][[1, 3]], rows[1][[1, 3]])


def test_kv_after_compaction_equals_recomputed_kv():
    model = llama()
    rng = random.Random(2)
    kept = TreeModel(model)
    sequence = [3, 1, 4]
    kept.prefill(sequence)
    for _ in range(8):
        parents, tokens = random_parents(12, rng), [rng.randrange(128) for _ in range(12)]
        parents = [-1] + [p + 1 for p in parents]  # one root, as the loop of generate has it
        tokens = [rng.randrange(128), *tokens]
        kept.forward(tokens, parents)
        path = path_of(parents, rng.randrange(13))
        kept.keep(path)
        sequence += [tokens[i] for i in path]
        assert kept.length == len(sequence)
        fresh = TreeModel(model)
        fresh.prefill(sequence)
        for ours, theirs in zip(kept._cache.layers, fresh._cache.layers, strict=True):
            assert ours.keys.shape == theirs.keys.shape
            torch.testing.assert_close(ours.keys, theirs.keys, rtol=1e-4, atol=1e-4)
            torch.testing.assert_close(ours.values, theirs.values, rtol=1e-4, atol=1e-4)


def test_what_is_kept_must_be_a_path_from_the_root():
    tree = TreeModel(llama())
    tree.prefill([3])
    tree.forward([5, 9, 2], [-1, 0, 0])
    for wrong in ([1], [0, 1, 2], [0, 2, 1]):
        with pytest.raises(sv.ArgumentError, match="path"):
            tree.keep(wrong)
    with pytest.raises(sv.ArgumentError, match="slots is 3; expected 0"):
        tree.prefill([1])


class DeafLlama(type(llama())):
    """Ignores the mask it is given, as some attention backends do."""

    def forward(self, *args, attention_mask=None, **kwargs):
        return super().forward(*args, attention_mask=None, **kwargs)


def test_case_21_a_model_that_ignores_the_mask_is_refused():
    """sgl-project/sglang #20278: an ignored mask is silent garbage."""
    deaf = DeafLlama(llama().config).eval()
    with pytest.raises(UnsupportedModelError, match="ignores a 4-D attention mask"):
        TreeModel(deaf)


def test_attention_without_a_4d_mask_is_refused():
    model = llama()
    model.config._attn_implementation = "flash_attention_2"
    with pytest.raises(UnsupportedModelError, match="'flash_attention_2'; expected one of"):
        TreeModel(model, "target")


def test_recurrent_state_is_refused():
    model = MambaForCausalLM(MambaConfig(vocab_size=16, hidden_size=16, num_hidden_layers=2, state_size=4)).eval()
    with pytest.raises(UnsupportedModelError):
        TreeModel(model)


def test_a_sliding_window_is_served_up_to_its_length_and_refused_beyond():
    torch.manual_seed(0)
    config = MistralConfig(
        vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, sliding_window=8, attn_implementation="sdpa",
    )  # fmt: skip
    model = MistralForCausalLM(config).eval()
    tree = TreeModel(model)
    tree.prefill([1, 2, 3, 4, 5])
    logits = tree.forward([6, 7, 8], [-1, 0, 1])
    torch.testing.assert_close(logits[2], full(model, [1, 2, 3, 4, 5, 6, 7, 8]), rtol=1e-4, atol=1e-4)
    with pytest.raises(UnsupportedModelError, match="reaches 9 tokens; expected at most the model's sliding window, 8"):
        tree.forward([9], [2])


def test_shapes():
    assert shapes.chain(3) == [-1, 0, 1]
    assert shapes.branching([2, 1]) == [-1, -1, 0, 1]
    assert shapes.siblings(2, 3) == [-1, -1, 0, 0, 2, 2]
    assert shapes.paths(2, 2) == [-1, 0, -1, 2]
    assert shapes.parse("siblings:2x3") == shapes.siblings(2, 3)
    assert shapes.parse("branching:2,1") == shapes.branching([2, 1])
    assert shapes.truncated(shapes.branching([2, 2, 1]), 2) == shapes.branching([2, 2])
    assert shapes.truncated(shapes.paths(2, 3), 2) == shapes.paths(2, 2)
    for wrong in ("", "chain", "chain:0", "chain:-1", "tree:3", "siblings:3", "branching:2,,1", "paths:1x2x3"):
        with pytest.raises(ValueError, match="expected chain:N"):
            shapes.parse(wrong)
