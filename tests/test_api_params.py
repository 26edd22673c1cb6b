"""SamplingParams: vLLM's names and defaults, errors that name the field, equality and pickling."""

import copy
import inspect
import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import specverify as sv

FIELDS: dict[str, Any] = {
    "temperature": st.floats(0, 5),
    "top_p": st.floats(0.01, 1),
    "top_k": st.integers(-1, 2**40),
    "min_p": st.floats(0, 1),
    "presence_penalty": st.floats(-2, 2),
    "frequency_penalty": st.floats(-2, 2),
    "repetition_penalty": st.floats(0.1, 2),
    "seed": st.none() | st.integers(0, 2**64 - 1),
    "min_tokens": st.integers(0, 2**32 - 1),
    "logit_bias": st.none() | st.dictionaries(st.integers(0, 2**32 - 1), st.floats(-100, 100), min_size=1),
    "allowed_token_ids": st.none() | st.lists(st.integers(0, 2**32 - 1), min_size=1),
    "bad_words_token_ids": st.none() | st.lists(st.lists(st.integers(0, 9), min_size=1), min_size=1),
    "logprobs": st.none() | st.integers(-1, 100),
}


def test_defaults_are_vllms() -> None:
    params = sv.SamplingParams()
    expected = dict.fromkeys(FIELDS, 0) | {
        "temperature": 1,
        "top_p": 1,
        "repetition_penalty": 1,
        "seed": None,
        "logit_bias": None,
        "allowed_token_ids": None,
        "bad_words_token_ids": None,
        "logprobs": None,
    }
    assert {name: getattr(params, name) for name in FIELDS} == expected
    assert repr(params) == "SamplingParams()"
    signature = inspect.signature(sv.SamplingParams).parameters
    assert {name: parameter.default for name, parameter in signature.items()} == expected
    assert all(parameter.kind is parameter.KEYWORD_ONLY for parameter in signature.values())


@given(st.fixed_dictionaries({}, optional=FIELDS))
def test_repr_and_pickle_give_the_same_parameters(fields: dict[str, Any]) -> None:
    params = sv.SamplingParams(**fields)
    for same in (pickle.loads(pickle.dumps(params)), copy.deepcopy(params), eval(repr(params), vars(sv))):
        assert same == params
    for name, value in fields.items():
        if name != "temperature" and value is not None:
            found = getattr(params, name)
            close = found == pytest.approx(value, rel=1e-6) if isinstance(value, float | dict) else found == value
            assert close, (name, value, found)


def test_temperatures_below_a_hundredth_are_raised() -> None:
    assert sv.SamplingParams(temperature=0.001).temperature == 0.01
    assert sv.SamplingParams(temperature=0).temperature == 0


def test_seed_of_minus_one_is_none() -> None:
    assert sv.SamplingParams(seed=-1).seed is None
    assert sv.SamplingParams(seed=2**64 - 1).seed == 2**64 - 1


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", -1),
        ("temperature", math.nan),
        ("temperature", math.inf),
        ("temperature", 1e300),
        ("temperature", "hot"),
        ("temperature", True),
        ("top_p", 0),
        ("top_p", 1.5),
        ("top_p", math.nan),
        ("top_k", -2),
        ("top_k", 2.5),
        ("top_k", 2**70),
        ("min_p", -0.1),
        ("min_p", 2),
        ("presence_penalty", 3),
        ("frequency_penalty", -3),
        ("repetition_penalty", 0),
        ("repetition_penalty", math.inf),
        ("seed", 2**64),
        ("seed", -2),
        ("seed", 1.0),
        ("seed", "7"),
        ("seed", False),
        ("min_tokens", -1),
        ("min_tokens", 2**32),
        ("logit_bias", [1, 2]),
        ("logit_bias", {-1: 1.0}),
        ("logit_bias", {1: math.nan}),
        ("logit_bias", {1: "x"}),
        ("logit_bias", {"1": 1.0}),
        ("allowed_token_ids", []),
        ("allowed_token_ids", [-1]),
        ("allowed_token_ids", [1.5]),
        ("allowed_token_ids", "12"),
        ("allowed_token_ids", 7),
        ("bad_words_token_ids", [[]]),
        ("bad_words_token_ids", [1]),
        ("bad_words_token_ids", [[1], [-1]]),
        ("bad_words_token_ids", ["ab"]),
        ("logprobs", -5),
        ("logprobs", "all"),
    ],
)
def test_values_outside_the_domain_are_named(field: str, value: Any) -> None:
    with pytest.raises(sv.ArgumentError, match=field) as raised:
        sv.SamplingParams(**{field: value})
    assert "; expected " in str(raised.value)


def test_parameters_can_not_be_changed() -> None:
    with pytest.raises(AttributeError):
        sv.SamplingParams().seed = 1  # type: ignore[misc]


def test_numpy_numbers_are_numbers() -> None:
    params = sv.SamplingParams(
        temperature=np.float32(0.8),
        seed=np.uint64(7),
        allowed_token_ids=np.array([1, 2]),
        logit_bias={np.int64(3): np.float64(1)},
    )
    assert params == sv.SamplingParams(temperature=0.8, seed=7, allowed_token_ids=[1, 2], logit_bias={3: 1.0})


def test_a_positive_temperature_is_never_greedy() -> None:
    """1e-50 is 0 as a float32."""
    for temperature in (5e-324, 1e-50, 1e-9):
        assert sv.SamplingParams(temperature=temperature).temperature == 0.01
    assert sv.SamplingParams(temperature=0.0).temperature == 0
    assert sv.SamplingParams(temperature=-0.0).temperature == 0
    with pytest.raises(sv.ArgumentError, match="temperature is "):
        sv.SamplingParams(temperature=-1e-50)
