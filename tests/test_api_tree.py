"""DraftTree, its builders, Beam, compaction_plan and AcceptanceStats from Python."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import specverify as sv

Parents = list[int]


@st.composite
def parent_lists(draw: st.DrawFn, most: int = 80) -> Parents:
    return [draw(st.integers(-1, i - 1)) for i in range(draw(st.integers(0, most)))]


@given(parent_lists())
def test_topology_is_what_the_parents_say(parents: Parents) -> None:
    n = len(parents)
    tree = sv.DraftTree(range(n), parents)
    assert len(tree) == n
    assert tree.tokens == list(range(n))
    assert tree.parents == parents
    assert tree.depths == [len(tree.path(i + 1)) for i in range(n)]
    assert [tree.children(row) for row in range(n + 1)] == [
        [i for i, parent in enumerate(parents) if parent == row - 1] for row in range(n + 1)
    ]
    bits = tree.ancestor_bits
    assert bits.dtype == np.uint64
    assert bits.shape == (n + 1, -(-n // 64))
    for row in range(n + 1):
        seen = [j for j in range(n) if int(bits[row, j // 64]) >> (j % 64) & 1]
        assert seen == sorted(tree.path(row))


@pytest.mark.parametrize("draws", ["deterministic", "independent", "without_replacement"])
def test_trees_compare_pickle_and_print(draws: Any) -> None:
    tree = sv.DraftTree([5, 7, 9], [-1, -1, 0], draws=draws)
    for same in (pickle.loads(pickle.dumps(tree)), copy.deepcopy(tree), eval(repr(tree), vars(sv))):
        assert same == tree
        assert same.draws == draws
    assert tree != sv.DraftTree([5, 7, 9], [-1, -1, 1], draws=draws)
    assert tree != "a tree"


def test_paths_keep_their_node_ids_and_pickle() -> None:
    tree = sv.DraftTree.from_paths(np.array([[5, 7], [5, 9], [5, 7]]))
    assert (tree.tokens, tree.parents, tree.paths) == ([5, 7, 9], [-1, 0, 0], [[0, 1], [0, 2], [0, 1]])
    assert tree.draws == "paths"
    assert pickle.loads(pickle.dumps(tree)) == eval(repr(tree), vars(sv)) == tree


def test_a_chain() -> None:
    chain = sv.DraftTree.chain([5, 5], draws="independent")
    assert (chain.parents, chain.draws, chain.paths, chain.scores) == ([-1, 0], "independent", None, None)
    assert len(sv.DraftTree.chain([])) == 0


@pytest.mark.parametrize("container", [list, tuple, np.array, lambda ids: np.array(ids, np.int32), iter])
def test_ids_come_in_any_container(container: Any) -> None:
    assert sv.DraftTree(container([5, 7]), container([-1, 0])) == sv.DraftTree.chain([5, 7])


@pytest.mark.parametrize(
    ("tokens", "parents", "error", "named"),
    [
        ([5, -1], [-1, 0], sv.ArgumentError, r"tokens\[1\] is -1"),
        ([5, 2**32], [-1, 0], sv.ArgumentError, r"tokens\[1\] is 4294967296"),
        ([5, 10**30], [-1, 0], sv.ArgumentError, r"tokens\[1\]"),
        ([5, 2.0], [-1, 0], sv.ArgumentError, r"tokens\[1\] is 2.0"),
        ([5, None], [-1, 0], sv.ArgumentError, r"tokens\[1\] is None"),
        ([True, 5], [-1, 0], sv.ArgumentError, r"tokens\[0\] is True"),
        (np.array([-1]), [-1], sv.ArgumentError, r"tokens\[0\] is -1"),
        (np.array([1.5]), [-1], sv.ArgumentError, r"tokens\[0\] is 1.5"),
        (np.array([[1]]), [-1], sv.ArgumentError, r"tokens\[0\]"),
        (np.array(1), [-1], sv.ArgumentError, "tokens"),
        (np.array([True]), [-1], sv.ArgumentError, r"tokens\[0\]"),
        (np.array([object()]), [-1], sv.ArgumentError, r"tokens\[0\]"),
        ("ab", [-1, 0], sv.ArgumentError, "tokens is 'ab'"),
        (7, [-1], sv.ArgumentError, "tokens is 7"),
        ({1: 2}, [-1], sv.ArgumentError, "tokens is"),
        ([5], [0], sv.TreeError, r"parents\[0\] is 0"),
        ([5], [-2], sv.TreeError, r"parents\[0\] is -2"),
        ([5, 7], [1, -1], sv.TreeError, r"parents\[0\] is 1"),
        ([5], [2**31], sv.ArgumentError, r"parents\[0\]"),
        ([5], [], sv.ShapeError, "parents"),
        ([5, 5], [-1, -1], sv.TreeError, r"tokens\[1\] is 5"),
    ],
)
def test_malformed_trees_are_named(tokens: Any, parents: Any, error: type[Exception], named: str) -> None:
    with pytest.raises(error, match=named) as raised:
        sv.DraftTree(tokens, parents)
    assert isinstance(raised.value, sv.SpecVerifyError)
    assert "expected " in str(raised.value)


def test_unknown_draws_are_refused() -> None:
    for draws in ("paths", "Independent", 3):
        with pytest.raises(sv.ArgumentError, match="draws is"):
            sv.DraftTree([5], [-1], draws=draws)  # type: ignore[arg-type]


@pytest.mark.parametrize("row", [-1, 3, 2**70, 1.0, None, "0"])
def test_rows_outside_the_tree_are_refused(row: Any) -> None:
    tree = sv.DraftTree.chain([5, 7])
    for method in (tree.children, tree.path):
        with pytest.raises(sv.ArgumentError, match="row is"):
            method(row)


def test_errors_are_one_family_and_builtin_errors_too() -> None:
    members = [sv.ArgumentError, sv.ShapeError, sv.DtypeError, sv.TreeError, sv.PairingError, sv.RowError]
    assert all(issubclass(member, sv.SpecVerifyError) for member in members)
    assert all(issubclass(member, TypeError if member is sv.DtypeError else ValueError) for member in members)
    with pytest.raises(sv.TreeError) as raised:
        sv.DraftTree([5], [0])
    again = pickle.loads(pickle.dumps(raised.value))
    assert type(again) is sv.TreeError
    assert str(again) == str(raised.value)


LOGPROBS = [[-0.1, -2.0], [-0.2, -3.0]]


@pytest.mark.parametrize("builder", [sv.DraftTree.product, sv.DraftTree.siblings])
def test_builders_score_best_first(builder: Any) -> None:
    tree = builder(np.array([[5, 6], [7, 8]]), np.array(LOGPROBS, np.float32), nodes=4)
    assert tree.scores == sorted(tree.scores, reverse=True)
    assert tree.scores[0] == pytest.approx(-0.1)
    assert pickle.loads(pickle.dumps(tree)).scores == tree.scores


@pytest.mark.parametrize(
    ("tokens", "logprobs", "nodes", "error", "named"),
    [
        ([[5, 6]], [[-0.1, np.nan]], 2, sv.TreeError, r"logprobs\[0\]\[1\] is NaN"),
        ([[5, 6]], [[-0.1, 0.1]], 2, sv.TreeError, r"logprobs\[0\]\[1\]"),
        ([[5, 5]], [[-0.1, -0.2]], 2, sv.TreeError, r"tokens\[0\]\[1\] is 5"),
        ([[5, 6]], [[-0.1, -0.2]], 0, sv.ArgumentError, "nodes is 0"),
        ([[5, 6]], [[-0.1, -0.2]], -1, sv.ArgumentError, "nodes is -1"),
        ([[5, 6]], [[-0.1]], 1, sv.ShapeError, "logprobs"),
        ([[5, 6], [7]], [[-0.1, -0.2], [-0.1, -0.1]], 1, sv.ShapeError, r"tokens\[1\]"),
        ([], [], 1, sv.SpecVerifyError, "expected"),
        ([[]], [[]], 1, sv.SpecVerifyError, "expected"),
        ([5, 6], [-0.1, -0.2], 1, sv.ArgumentError, r"tokens\[0\] is 5"),
        ([[5]], [["x"]], 1, sv.ArgumentError, r"logprobs\[0\]\[0\] is 'x'"),
    ],
)
def test_malformed_candidates_are_named(
    tokens: Any, logprobs: Any, nodes: int, error: type[Exception], named: str
) -> None:
    for builder in (sv.DraftTree.product, sv.DraftTree.siblings):
        with pytest.raises(error, match=named):
            builder(tokens, logprobs, nodes=nodes)


def test_lattice_shape_and_medusa_from_python() -> None:
    lattice = sv.DraftTree.lattice([[5, 6], [7, 8]], LOGPROBS, np.log([[[0.1, 0.9], [0.5, 0.5]]]), nodes=3)
    assert (lattice.tokens[:2], lattice.parents[:2]) == ([5, 8], [-1, 0])
    with pytest.raises(sv.ShapeError, match="transitions"):
        sv.DraftTree.lattice([[5, 6], [7, 8]], LOGPROBS, [[[0.0, 0.0]]], nodes=3)
    assert sv.DraftTree.shape([-1, -1, 0], [[5, 6], [7]]) == sv.DraftTree.medusa([[0], [1], [0, 0]], [[5, 6], [7]])
    with pytest.raises(sv.ShapeError, match=r"candidates\[0\]"):
        sv.DraftTree.shape([-1, -1], [[5]])
    with pytest.raises(sv.TreeError, match=r"paths\[0\]"):
        sv.DraftTree.medusa([[0, 0]], [[5], [6]])
    for ragged in ([], [[]], [[1, 2], [3]]):
        with pytest.raises(sv.SpecVerifyError, match="paths"):
            sv.DraftTree.from_paths(ragged)


def test_beam_refuses_what_does_not_fit_and_stays_as_it_was() -> None:
    beam = sv.Beam(2)
    beam.expand([[5, 6]], [[-0.1, -2.0]])
    with pytest.raises(sv.ShapeError, match="tokens"):
        beam.expand([[7]], [[-0.1]])
    with pytest.raises(sv.TreeError, match="logprobs"):
        beam.expand([[7], [8]], [[-0.1], [np.nan]])
    assert (beam.frontier, beam.tokens, beam.parents) == ([0, 1], [5, 6], [-1, -1])
    assert beam.finish(1) != beam.finish(2)
    for width in (0, -1, 1.5):
        with pytest.raises(sv.ArgumentError, match="width"):
            sv.Beam(width)  # type: ignore[arg-type]


def test_compaction_leaves_the_accepted_path_as_a_chain() -> None:
    tree = sv.DraftTree([5, 6, 7, 8], [-1, -1, 1, 1])
    pages = [[9, 4], [2, 5, 7]]
    bases = [3, 7]
    plan = sv.compaction_plan([tree, tree], [[1, 3], []], bases, pages=pages, page_size=4)
    assert plan.moves.dtype == np.int64
    assert (plan.kept, plan.freed) == ([6, 8], [range(2, 2), range(2, 3)])
    cache = np.zeros(64, int)
    for request, base in enumerate(bases):
        for row in range(5):
            slot = base + row
            cache[pages[request][slot // 4] * 4 + slot % 4] = 100 * request + row
    for source, destination in plan.moves.tolist():
        cache[destination] = cache[source]
    for request, kept in enumerate([[0, 2, 4], [100]]):
        slots = range(bases[request], plan.kept[request])
        assert [cache[pages[request][slot // 4] * 4 + slot % 4] for slot in slots] == kept


@pytest.mark.parametrize(
    ("arguments", "keywords", "error", "named"),
    [
        (([], [[]], []), {}, sv.ShapeError, "paths has length 1; expected 0"),
        ((["tree"], [[]], [0]), {}, sv.ArgumentError, r"trees\[0\] is 'tree'"),
        ((7, [], []), {}, sv.ArgumentError, "trees is 7"),
        (
            ([sv.DraftTree.chain([5])], [[1]], [0]),
            {},
            sv.ArgumentError,
            r"^paths\[0\]\[0\] is 1; expected a child of the root",
        ),
        (
            ([sv.DraftTree.chain([5, 6])] * 2, [[], [0, 0]], [0, 0]),
            {},
            sv.ArgumentError,
            r"^paths\[1\]\[1\] is 0; .* node 0",
        ),
        (([sv.DraftTree.chain([5])], [[-1]], [0]), {}, sv.ArgumentError, r"paths\[0\]\[0\] is -1"),
        (([sv.DraftTree.chain([5])], [[0]], [-1]), {}, sv.ArgumentError, r"bases\[0\] is -1"),
        (([sv.DraftTree.chain([5])], [[0]], [2**64 - 1]), {}, sv.ArgumentError, r"bases\[0\]"),
        (
            ([sv.DraftTree.chain([5])], [[0]], [2**63 - 1]),
            {},
            sv.ArgumentError,
            r"^bases\[0\] is 9223372036854775807; .* below",
        ),
        (
            ([sv.DraftTree.chain([5])], [[0]], [2**63 - 1]),
            {"firsts": [2**63 - 1]},
            sv.ArgumentError,
            r"bases\[0\] is .* below 2\^63; firsts\[0\] is 9223372036854775807",
        ),
        (
            ([sv.DraftTree.chain([5])], [[0]], [0]),
            {"pages": [[7, 2**32 - 1]], "page_size": 2**32 - 1},
            sv.ArgumentError,
            r"^pages\[0\]\[1\] is 4294967295; expected slots below 2\^63",
        ),
        (([sv.DraftTree.chain([5])], [[0]], [0]), {"pages": [[1]]}, sv.ArgumentError, "page_size is None"),
        (
            ([sv.DraftTree.chain([5])], [[0]], [0]),
            {"pages": [[]], "page_size": 4},
            sv.ShapeError,
            r"^pages\[0\] has length 0",
        ),
        (
            ([sv.DraftTree.chain([5])], [[0]], [0]),
            {"pages": [[0]], "page_size": 0},
            sv.ArgumentError,
            "page_size is 0; expected a",
        ),
    ],
)
def test_malformed_steps_are_named(arguments: Any, keywords: Any, error: type[Exception], named: str) -> None:
    with pytest.raises(error, match=named):
        sv.compaction_plan(*arguments, **keywords)


def test_statistics_count_merge_and_pickle() -> None:
    stats = sv.AcceptanceStats()
    assert (stats.mean_accepted_length, stats.acceptance_rate, stats.survival) == (None, None, [])
    stats.record_chain([5, 6, -1], 1)
    stats.record_chain(np.array([5, 6, 7]), None)
    stats.record_tree(sv.DraftTree([5, 7, 9], [-1, -1, 0]), 2)
    assert (stats.drafts, stats.drafted, stats.accepted) == (2, 5, 3)
    assert (stats.drafted_per_depth, stats.accepted_per_depth, stats.survival) == ([3, 2], [2, 1], [1.0, 0.5])
    assert stats.mean_accepted_length == 1 + sum(stats.survival) == 2.5
    again = pickle.loads(pickle.dumps(stats))
    assert again == stats
    stats.merge(stats)
    again.merge(again)
    assert again == stats
    assert stats.drafts == 4
    assert stats.mean_accepted_length == 2.5


@pytest.mark.parametrize("accepted", [3, -1, 1.5, "all", 2**70])
def test_statistics_refuse_more_than_was_drafted(accepted: Any) -> None:
    stats = sv.AcceptanceStats()
    with pytest.raises(sv.ArgumentError, match="accepted"):
        stats.record_chain([5, 6], accepted)
    with pytest.raises(sv.ArgumentError, match="tree is"):
        stats.record_tree([5, 6], 1)  # type: ignore[arg-type]
    with pytest.raises(sv.ArgumentError, match="other is"):
        stats.merge(None)  # type: ignore[arg-type]
    assert stats == sv.AcceptanceStats()
