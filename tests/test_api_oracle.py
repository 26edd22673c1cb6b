"""The oracle from Python: exact laws, closed forms, and what a wrong pairing costs."""

from typing import Any

import numpy as np
import pytest

import specverify as sv
from specverify import oracle


def table(vocab: int, depth: int, seed: int) -> oracle.Table:
    rows = sum(vocab**d for d in range(depth))
    return oracle.Table(np.random.default_rng(seed).dirichlet(np.ones(vocab), rows))


P, Q = table(3, 4, 0), table(3, 4, 1)


@pytest.mark.parametrize(
    ("rule", "parents", "draws"),
    [
        ("target_only", [-1, -1, 0], "independent"),
        ("token", [-1, 0, 1], "independent"),
        ("block", [-1, 0, 1], "independent"),
        ("recursive", [-1, -1, 0, 0], "independent"),
        ("recursive", [-1, -1, 0, 0], "without_replacement"),
        ("traversal", [-1, -1, 0, 0], "independent"),
        ("traversal", [-1, -1, 0, 0], "without_replacement"),
    ],
)
def test_rules_have_the_targets_law(rule: str, parents: list[int], draws: Any) -> None:
    law = oracle.law(rule, P, Q, length=4, parents=parents, draws=draws)
    assert oracle.total_variation(law.texts, P.texts(4)) < 1e-12
    assert 1 < law.mean_emitted <= 4


def test_multipath_has_the_targets_law() -> None:
    law = oracle.law("multipath", P, Q, length=3, trees=oracle.path_draws(Q, 2, 2))
    assert oracle.total_variation(law.texts, P.texts(3)) < 1e-12


def test_case_8_mean_accepted_is_the_overlap_of_p_and_q() -> None:
    law = oracle.law("token", P, Q, length=2, parents=[-1])
    assert law.mean_emitted == pytest.approx(1 + np.minimum(P.texts(1), Q.texts(1)).sum(), abs=1e-12)


def test_case_9_chosen_children_verified_as_if_drawn_are_biased() -> None:
    top = oracle.Table(np.tile([0.6, 0.3, 0.1], (4, 1)))
    flat = oracle.Table(np.tile([1 / 3] * 3, (4, 1)))
    lie = sv.DraftTree([0, 1], [-1, -1], draws="without_replacement")
    law = oracle.law("recursive", flat, top, length=2, trees=[(1.0, lie)])
    assert oracle.total_variation(law.texts, flat.texts(2)) >= 0.24
    with pytest.raises(sv.PairingError):
        oracle.law("recursive", flat, top, length=2, trees=[(1.0, sv.DraftTree([0, 1], [-1, -1]))])


@pytest.mark.parametrize(
    ("arguments", "keywords", "named"),
    [
        (("auto", P, Q), {"parents": [-1]}, "rule is 'auto'"),
        (("token", None, Q), {"parents": [-1]}, "target is None"),
        (("token", P, table(2, 4, 0)), {"parents": [-1]}, "drafter"),
        (("token", P, Q), {}, "parents is None"),
        (("token", P, Q), {"parents": [-1], "trees": []}, "parents"),
        (("token", P, Q), {"trees": []}, "trees"),
        (("token", P, Q), {"trees": [sv.DraftTree.chain([0])]}, r"trees\[0\]"),
        (("greedy", P, Q), {"trees": [(1.0, sv.DraftTree.chain([3]))]}, r"tokens\[0\] is 3"),
        (("greedy", P, Q), {"trees": [(5.0, sv.DraftTree.chain([1]))]}, r"trees is \[5"),
        (("greedy", P, Q), {"trees": [(float("nan"), sv.DraftTree.chain([1]))]}, r"trees is \[NaN"),
        (("token", P, Q), {"parents": [0]}, r"parents\[0\] is 0"),
        (("token", P, Q), {"parents": [-1, 0, 1, 2, 3]}, "depth"),
        (("token", P, Q), {"parents": [-1], "length": 9}, "length is 9"),
        (("token", P, Q), {"parents": [-1], "length": -1}, "length is -1"),
        (("recursive", P, Q), {"parents": [-1] * 4, "draws": "without_replacement"}, "drafter row 0"),
    ],
)
def test_malformed_questions_are_named(arguments: Any, keywords: Any, named: str) -> None:
    with pytest.raises(sv.SpecVerifyError, match=named):
        oracle.law(*arguments, **({"length": 3} | keywords))


@pytest.mark.parametrize(
    "rows", [None, [[1.0]], np.ones((1, 1), np.float32), np.ones((2, 3)) / 3, np.zeros((0, 3)), np.zeros((3, 0)),
             np.array([[0.5, 0.6]]), np.array([[np.nan, 1]]), np.array([[-1.0, 2.0]])],
)  # fmt: skip
def test_malformed_tables_are_named(rows: Any) -> None:
    if rows is not None and np.shape(rows) == (0, 3):
        assert oracle.Table(rows).depth == 0  # a model of the empty text: no row is wrong
        return
    with pytest.raises(sv.SpecVerifyError, match=r"rows|vocab"):
        oracle.Table(rows)


def test_total_variation_wants_laws_over_one_set() -> None:
    with pytest.raises(sv.ShapeError, match="b has length 2"):
        oracle.total_variation(np.ones(3), np.ones(2))
    with pytest.raises(sv.ArgumentError, match="a is"):
        oracle.total_variation([1.0], np.ones(1))  # type: ignore[arg-type]
