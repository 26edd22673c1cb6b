"""The exact law of a verification rule, by enumeration: the shipped rule under a chooser that follows every outcome."""

from specverify._core import Law, Table, law, path_draws, total_variation

__all__ = ["Law", "Table", "law", "path_draws", "total_variation"]
