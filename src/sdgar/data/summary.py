"""Summaries of interactions: lines for people, the paper's statistics, and a fingerprint."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

from sdgar.data import numbers
from sdgar.data.read_options import USER

if TYPE_CHECKING:
    from sdgar.data.interactions import Interactions


def describe(data: Interactions) -> list[str]:
    """Return a few lines for people."""
    times = weights = features = ""
    if data.time_E is not None:
        first, last = numbers.shown(data.time_E.min()), numbers.shown(data.time_E.max())
        times = f"times from {first} to {last}"
    if data.weight_E is not None:
        weights = f"weights from {data.weight_E.min():g} to {data.weight_E.max():g}"
    for what, known in (("users", data.user_features), ("items", data.item_features)):
        features += "" if known is None else f" · {known.n_features:,} features of {what}"
    lines = [
        f"Interactions: {data.size_text()} ({100 * data.stats()['density']:.3f} % filled)",
        data.account.sentence(),
        f"{times or 'no times'} · {weights or 'no weights'}{features}",
    ]
    if data.context != USER:
        lines.append(f"a context is {', '.join(data.context)}")
    return lines


def fingerprint(data: Interactions) -> str:
    """Return the SHA-256 of ids, pairs, weights, times, features, ``seen`` and ``seen_by``."""
    digest = hashlib.sha256()
    for ids in (data.users, data.items):
        digest.update(ids.kind.encode())
        text = ids.kind == "text"
        digest.update("\0".join(ids.values).encode() if text else ids.values.tobytes())
    for array in (data.indptr_U1, data.items_E, data.weight_E, data.time_E):
        digest.update(b"-" if array is None else array.tobytes())
    for features in (data.user_features, data.item_features):
        if features is not None:
            digest.update(features.digest())
    if data.seen is not None:
        digest.update(b"seen" + data.seen.indptr_U1.tobytes() + data.seen.items_E.tobytes())
    if data.seen_time_E is not None:
        digest.update(data.seen_time_E.tobytes())
    if data.seen_neutral_E is not None:
        digest.update(b"neutral" + data.seen_neutral_E.tobytes())
    if data.fields is not None and data.seen_by == "user":
        digest.update(b"seen by user")
    return digest.hexdigest()


def statistics(data: Interactions) -> dict[str, float]:
    """Return users, items, interactions, density, and the share of rows on the top 5 % of items."""
    per_item = np.bincount(data.items_E, minlength=data.n_items)
    top = -(-data.n_items // 20)
    return {
        "users": data.n_users,
        "items": data.n_items,
        "interactions": len(data),
        "density": len(data) / (data.n_users * data.n_items),
        "concentration": float(np.sort(per_item)[::-1][:top].sum() / len(data)),
    }
