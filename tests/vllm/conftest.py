"""A tiny random Llama and vLLM engines over it.

Engines live as long as the session: one that is collected takes the process's communication groups along.
"""

from __future__ import annotations

import pytest
from vllm_engine import EOS, VOCAB, Engine


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Path of a Llama checkpoint: 2 layers, V = 512, one word a token ("<7>" is 7). Its logits are nearly flat, so that a race
    that differed at all would show."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    path = str(tmp_path_factory.mktemp("tiny_llama"))
    words = Tokenizer(models.WordLevel({f"<{i}>": i for i in range(VOCAB)}, unk_token="<0>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(
        tokenizer_object=words, unk_token="<0>", bos_token="<1>", eos_token=f"<{EOS}>", pad_token="<0>"
    ).save_pretrained(path)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,  # the least that vLLM's CPU attention takes
        max_position_embeddings=512,
        initializer_range=0.3,
        bos_token_id=1,
        eos_token_id=EOS,
        pad_token_id=0,
        tie_word_embeddings=False,
    )
    LlamaForCausalLM(config).to(torch.float32).save_pretrained(path)
    return path


@pytest.fixture(scope="session")
def engine(tiny_model: str) -> Engine:
    """With specverify; what it drafts is the test's choice (`Engine.drafting`)."""
    return Engine(tiny_model, "scripted_proposer.ScriptedProposer")


@pytest.fixture(scope="session")
def stock_engine(tiny_model: str) -> Engine:
    """vLLM without speculation."""
    return Engine(tiny_model, None)


@pytest.fixture(scope="session")
def reference_engine(tiny_model: str) -> Engine:
    """With specverify's sampler and a proposer that drafts nothing."""
    return Engine(tiny_model, "specverify.vllm.NoProposer")


@pytest.fixture(scope="session")
def tight_engine(tiny_model: str) -> Engine:
    """With a KV cache of 256 tokens for 8 requests: they preempt one another."""
    return Engine(
        tiny_model, "scripted_proposer.ScriptedProposer", block_size=32, num_gpu_blocks_override=8, max_model_len=128
    )
