"""Ways to hold rows out, by name and as functions."""

from sdgar.data.splits.by_name import (
    RULES,
    Rule,
    default_rule,
    folds,
    is_several,
    split,
    validation,
)
from sdgar.data.splits.several import k_folds, windows
from sdgar.data.splits.single import (
    Split,
    by_date,
    by_time,
    leave_last_out,
    per_user,
    random_rows,
    whole_items,
    whole_users,
)

__all__ = [
    "RULES",
    "Rule",
    "Split",
    "by_date",
    "by_time",
    "default_rule",
    "folds",
    "is_several",
    "k_folds",
    "leave_last_out",
    "per_user",
    "random_rows",
    "split",
    "validation",
    "whole_items",
    "whole_users",
    "windows",
]
