"""Our processed distribution equals that of transformers' own processors and warpers, where orders of filters agree.

transformers applies its processors first (penalties, bias, bad words), then temperature, top_k, top_p and min_p; ours has
min_p before top_k and top_p. So min_p is compared alone and with temperature, the others in combination as well.
"""

import numpy as np
import pytest
import torch
from transformers.generation import logits_process as hf

import specverify as sv

VOCAB = 500
PROMPT = [3, 3, 17, 250, 499]
OUTPUT = [17, 8, 8, 8, 42]
EOS = 7


def sequence_bias(bias):
    return hf.SequenceBiasLogitsProcessor({(token,): value for token, value in bias.items()})


CASES = {
    "nothing": ({}, []),
    "temperature": ({"temperature": 0.7}, [hf.TemperatureLogitsWarper(0.7)]),
    "top_k": ({"top_k": 13}, [hf.TopKLogitsWarper(13)]),
    "top_p": ({"top_p": 0.8}, [hf.TopPLogitsWarper(0.8)]),
    "min_p": ({"min_p": 0.05}, [hf.MinPLogitsWarper(0.05)]),
    "temperature and min_p": (
        {"temperature": 1.7, "min_p": 0.1},
        [hf.TemperatureLogitsWarper(1.7), hf.MinPLogitsWarper(0.1)],
    ),
    "temperature, top_k, top_p": (
        {"temperature": 0.6, "top_k": 20, "top_p": 0.95},
        [hf.TemperatureLogitsWarper(0.6), hf.TopKLogitsWarper(20), hf.TopPLogitsWarper(0.95)],
    ),
    "repetition penalty": ({"repetition_penalty": 1.4}, [hf.RepetitionPenaltyLogitsProcessor(1.4)]),
    "repetition reward": ({"repetition_penalty": 0.6}, [hf.RepetitionPenaltyLogitsProcessor(0.6)]),
    "bias": ({"logit_bias": {1: 3.0, 400: -5.0}}, [sequence_bias({1: 3.0, 400: -5.0})]),
    "bad words": (
        {"bad_words_token_ids": [[11], [8, 42, 9], [42, 100], [5, 6]]},
        [hf.NoBadWordsLogitsProcessor([[11], [8, 42, 9], [42, 100], [5, 6]], eos_token_id=torch.tensor([EOS]))],
    ),
    "allowed ids": (
        {"allowed_token_ids": list(range(0, VOCAB, 3))},
        [hf.SuppressTokensLogitsProcessor([token for token in range(VOCAB) if token % 3])],
    ),
    "min_tokens, not yet": (
        {"min_tokens": 6},
        [hf.MinNewTokensLengthLogitsProcessor(len(PROMPT), 6, torch.tensor([EOS]))],
    ),
    "min_tokens, reached": (
        {"min_tokens": 5},
        [hf.MinNewTokensLengthLogitsProcessor(len(PROMPT), 5, torch.tensor([EOS]))],
    ),
    "bias, penalty, temperature, top_k, top_p": (
        {"logit_bias": {17: 4.0}, "repetition_penalty": 1.2, "temperature": 0.8, "top_k": 40, "top_p": 0.9},
        [
            sequence_bias({17: 4.0}),
            hf.RepetitionPenaltyLogitsProcessor(1.2),
            hf.TemperatureLogitsWarper(0.8),
            hf.TopKLogitsWarper(40),
            hf.TopPLogitsWarper(0.9),
        ],
    ),
}


@pytest.mark.parametrize(("ours", "theirs"), CASES.values(), ids=CASES)
@pytest.mark.parametrize("spread", [1.0, 4.0])
def test_the_processed_distribution_is_that_of_transformers(ours, theirs, spread):
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        logits = spread * torch.randn((1, VOCAB), generator=generator)
        scores = hf.LogitsProcessorList(theirs)(torch.tensor([PROMPT + OUTPUT]), logits.clone())
        expected = torch.softmax(scores.double(), -1)[0].numpy()
        found = sv.probabilities(
            logits,
            sampling=sv.SamplingParams(**ours),
            prompt_token_ids=PROMPT,
            output_token_ids=OUTPUT,
            stop_token_ids=[EOS],
        )[0]
        # Masses are whole numbers of 2^-40 of the largest, so what is less likely than that has none.
        assert (found[expected == 0] == 0).all()
        assert (found[expected > 2**-39 * expected.max()] > 0).all()
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-11)


def test_greedy_is_the_argmax_of_transformers_processors():
    generator = torch.Generator().manual_seed(1)
    processors = hf.LogitsProcessorList([sequence_bias({17: 4.0}), hf.RepetitionPenaltyLogitsProcessor(1.5)])
    sampling = sv.SamplingParams(temperature=0, logit_bias={17: 4.0}, repetition_penalty=1.5)
    for _ in range(50):
        logits = 3 * torch.randn((1, VOCAB), generator=generator)
        expected = int(processors(torch.tensor([PROMPT + OUTPUT]), logits.clone()).argmax())
        found = sv.probabilities(logits, sampling=sampling, prompt_token_ids=PROMPT, output_token_ids=OUTPUT)[0]
        assert found.tolist() == [float(token == expected) for token in range(VOCAB)]


@pytest.mark.parametrize("vocab", [3, 64, 65, 128, 200])
@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_top_k_leaves_k_ids_whatever_the_size_of_the_vocabulary(vocab, k):
    generator = torch.Generator().manual_seed(2)
    warper = hf.TopKLogitsWarper(k)
    for _ in range(20):
        logits = torch.randn((1, vocab), generator=generator)
        expected = torch.softmax(warper(torch.tensor([PROMPT]), logits.clone()).double(), -1)[0].numpy()
        found = sv.probabilities(logits, sampling=sv.SamplingParams(top_k=k))[0]
        assert (found > 0).sum() == min(k, vocab)
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-11)
