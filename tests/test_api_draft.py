"""The drafters through the public API: inputs, errors, reuse of ids, and parity with vLLM's n-gram proposer."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import specverify as sv

Drafter = sv.SuffixDrafter | sv.NgramDrafter
NEW: list[Callable[[], Drafter]] = [sv.SuffixDrafter, sv.NgramDrafter]
TEXT = [1, 2, 7, 9, 1, 2, 8, 5, 1, 2, 7, 4]


@pytest.mark.parametrize("new", NEW)
@pytest.mark.parametrize(
    "convert",
    [
        list,
        tuple,
        np.array,
        lambda ids: np.array(ids, np.int32),
        lambda ids: np.repeat(np.array(ids, np.uint32), 2)[::2],
    ],
)
def test_token_ids_as_lists_and_arrays(new: Callable[[], Drafter], convert: Any) -> None:
    drafter = new()
    drafter.start("a", convert(TEXT))
    drafter.extend("a", convert([1, 2]))
    expected = [7, 9] if isinstance(drafter, sv.NgramDrafter) else [7, 4]
    assert drafter.draft("a", max_tokens=2).tokens == expected


@pytest.mark.parametrize("new", NEW)
def test_ids_at_the_end_of_the_range(new: Callable[[], Drafter]) -> None:
    drafter, top = new(), 2**32 - 1
    drafter.start("a", np.array([top, top - 1, 0, top, top - 1], dtype=np.uint32))
    assert drafter.draft("a", max_tokens=1).tokens == [0]


@pytest.mark.parametrize("new", NEW)
@pytest.mark.parametrize("bad", [[-1], [2**32], [1.5], ["x"], [None], "12", None, 3, np.array([1.0]), np.array([-5])])
def test_bad_tokens_are_refused_and_change_nothing(new: Callable[[], Drafter], bad: Any) -> None:
    drafter = new()
    drafter.start("a", TEXT)
    drafter.extend("a", [1, 2])
    before = drafter.draft("a")
    with pytest.raises(sv.ArgumentError, match="token_ids"):
        drafter.extend("a", bad)
    with pytest.raises(sv.ArgumentError, match="prompt_token_ids"):
        drafter.start("b", bad)
    assert drafter.draft("a") == before
    assert "b" not in drafter


@pytest.mark.parametrize("new", NEW)
def test_ids_are_reused_safely(new: Callable[[], Drafter]) -> None:
    drafter = new()
    drafter.start("a", [1, 2, 3, 1, 2])
    with pytest.raises(sv.ArgumentError, match='request_id is "a"'):
        drafter.start("a", [])
    assert drafter.draft("a", max_tokens=1).tokens == [3]
    drafter.stop("a")
    assert "a" not in drafter
    assert len(drafter) == 0
    calls: list[Callable[[], object]] = [
        lambda: drafter.draft("a"),
        lambda: drafter.draft_tree("a"),
        lambda: drafter.extend("a", [1]),
        lambda: drafter.stop("a"),
        lambda: drafter.request_bytes("a"),
    ]
    for call in calls:
        with pytest.raises(sv.ArgumentError, match='request_id is "a"'):
            call()
    drafter.start("a", [1, 2])
    assert drafter.draft("a").tokens == []
    assert drafter.draft("a").tree == sv.DraftTree([], [])


@pytest.mark.parametrize("new", NEW)
@pytest.mark.parametrize("name", [5, None, b"a", "\ud800"])
def test_names_that_are_no_text_are_refused(new: Callable[[], Drafter], name: Any) -> None:
    drafter = new()
    calls: list[Callable[[], object]] = [
        lambda: drafter.start(name, [1]),
        lambda: drafter.extend(name, [1]),
        lambda: drafter.draft(name),
        lambda: drafter.draft_tree(name),
        lambda: drafter.stop(name),
        lambda: drafter.request_bytes(name),
    ]
    for call in calls:
        with pytest.raises(sv.ArgumentError, match="request_id is "):
            call()
    assert name not in drafter


@pytest.mark.parametrize("new", NEW)
def test_threads_take_turns(new: Callable[[], Drafter]) -> None:
    drafter, text = new(), [*range(3000), 0, 1]

    def serve(thread: int) -> list[int]:
        for step in range(20):
            name = f"{thread}-{step}"
            drafter.start(name, text)
            drafter.extend(name, [2])
            drafted = drafter.draft(name, max_tokens=1).tokens
            drafter.stop(name)
        return drafted

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(serve, range(4))) == [[3]] * 4
    assert len(drafter) == 0


@pytest.mark.parametrize(
    ("new", "arguments", "name"),
    [
        (sv.SuffixDrafter, {"max_depth": 1}, "max_depth"),
        (sv.SuffixDrafter, {"max_depth": -1}, "max_depth"),
        (sv.SuffixDrafter, {"min_match": 64}, "min_match"),
        (sv.SuffixDrafter, {"max_spec_factor": float("nan")}, "max_spec_factor"),
        (sv.SuffixDrafter, {"max_spec_offset": float("inf")}, "max_spec_offset"),
        (sv.SuffixDrafter, {"min_token_prob": 2}, "min_token_prob"),
        (sv.SuffixDrafter, {"min_token_prob": "x"}, "min_token_prob"),
        (sv.SuffixDrafter, {"corpus_bytes": 10}, "corpus_bytes"),
        (sv.SuffixDrafter, {"corpus_bytes": 2**38 + 1}, "corpus_bytes"),
        (sv.SuffixDrafter, {"corpus_bytes": 2**64 - 1}, "corpus_bytes"),
        (sv.NgramDrafter, {"min_n": 0}, "min_n"),
        (sv.NgramDrafter, {"min_n": 6}, "min_n"),
        (sv.NgramDrafter, {"max_n": 65}, "max_n"),
        (sv.NgramDrafter, {"occurrence": "first"}, "occurrence"),
    ],
)
def test_options_out_of_range_are_refused_by_name(new: Any, arguments: dict[str, Any], name: str) -> None:
    with pytest.raises(sv.ArgumentError, match=f"^{name} is "):
        new(**arguments)


@given(st.lists(st.integers(0, 3), max_size=60), st.integers(0, 20), st.integers(0, 9))
def test_trees_are_ancestor_closed_and_best_first(text: list[int], nodes: int, depth: int) -> None:
    for new in NEW:
        drafter = new()
        drafter.start("a", text)
        draft = drafter.draft_tree("a", max_nodes=nodes, max_depth=depth)
        assert len(draft) <= nodes
        assert max(draft.tree.depths, default=0) <= depth
        assert draft.scores == sorted(draft.scores, reverse=True)
        # Any prefix is a tree: the constructor refuses missing parents and equal siblings.
        for cut in range(len(draft)):
            sv.DraftTree(draft.tokens[:cut], draft.parents[:cut])


def test_a_corpus_is_off_by_default_and_bounded() -> None:
    output = list(range(100, 4000))
    drafters = {bytes_: sv.SuffixDrafter(corpus_bytes=bytes_) for bytes_ in (0, 2**20)}
    for corpus_bytes, drafter in drafters.items():
        for ended in (drafter.abort, drafter.stop):
            drafter.start("a", [])
            drafter.extend("a", output)
            ended("a")
            drafter.start("b", [100, 101])
            known = corpus_bytes > 0 and ended == drafter.stop
            assert drafter.draft("b", max_tokens=2).tokens == ([102, 103] if known else [])
            drafter.abort("b")
        assert drafter.corpus_bytes <= corpus_bytes


@settings(deadline=None)  # The first call imports vLLM and compiles.
@given(st.lists(st.integers(0, 3), min_size=1, max_size=80), st.integers(1, 3), st.integers(0, 3), st.integers(1, 9))
def test_ngram_chains_are_vllms(text: list[int], min_n: int, more: int, k: int) -> None:
    module = pytest.importorskip("vllm.v1.spec_decode.ngram_proposer", reason="vLLM is an extra")
    theirs = module._find_longest_matched_ngram_and_propose_tokens(
        np.array(text, dtype=np.int32), min_n, min_n + more, 10_000, k
    )
    drafter = sv.NgramDrafter(min_n=min_n, max_n=min_n + more)
    drafter.start("a", text)
    assert drafter.draft("a", max_tokens=k).tokens == theirs.tolist()


@pytest.mark.parametrize(
    ("make", "options", "said"),
    [
        (sv.SuffixDrafter, {"max_depth": 1}, "max_depth is 1; expected a number from 2 to 65536"),
        (
            sv.SuffixDrafter,
            {"max_depth": 4, "min_match": 4},
            "min_match is 4; expected a number from 1 to 3, below max_depth",
        ),
        (sv.SuffixDrafter, {"corpus_bytes": 1}, "corpus_bytes is 1; expected 0 (no corpus) or a number from "),
        (sv.NgramDrafter, {"min_n": 6}, "min_n is 6; expected a number from 1 to 5 (max_n)"),
        (sv.NgramDrafter, {"max_n": 0}, "max_n is 0; expected a number from 1 to "),
    ],
)
def test_limits_are_said_in_words(make: Any, options: dict[str, int], said: str) -> None:
    with pytest.raises(sv.ArgumentError) as raised:
        make(**options)
    assert str(raised.value).startswith(said)
    assert ".." not in str(raised.value)
