"""Tiny random models for the tests of specverify.hf: seconds to make, nothing to download."""

import copy

import torch
from transformers import LlamaConfig, LlamaForCausalLM

VOCAB = 128


def llama(
    vocab: int = VOCAB, layers: int = 2, attention: str = "sdpa", seed: int = 0, spread: float = 0.3
) -> LlamaForCausalLM:
    """A random Llama in fp32. `spread` is the deviation of its weights: large enough for rows far from uniform."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=vocab,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        initializer_range=spread,
        attn_implementation=attention,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=0,
    )
    return LlamaForCausalLM(config).eval()


def first_layers(model: LlamaForCausalLM, layers: int) -> LlamaForCausalLM:
    """The model without its later layers: a drafter that often agrees with it."""
    cut = copy.deepcopy(model)
    cut.model.layers = cut.model.layers[:layers]
    cut.config.num_hidden_layers = layers
    cut.config.layer_types = None
    return cut.eval()


def pruned_head(model: LlamaForCausalLM, ids: list[int]) -> LlamaForCausalLM:
    """The model with a head that knows only `ids`; its input still takes all."""
    cut = copy.deepcopy(model)
    head = torch.nn.Linear(model.config.hidden_size, len(ids), bias=False)
    head.weight = torch.nn.Parameter(model.lm_head.weight[ids].detach().clone())
    cut.lm_head = head
    return cut.eval()
