"""Write the vectors of a model as an index of faiss, with biases as one more number."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sdgar.exports.export import Contents, Files, missing_package
from sdgar.exports.to_numpy import write_history, write_ids


def write_faiss(contents: Contents, folder: Path) -> Files:
    """Write an exact index of (v_i, b_i) by inner product, and (u_c, 1) to search it with."""
    try:
        import faiss
    except ImportError as error:
        raise missing_package("faiss-cpu", "faiss") from error
    query_UE, item_IE = contents.with_biases()
    index = faiss.IndexFlatIP(item_IE.shape[1])
    index.add(np.ascontiguousarray(item_IE))
    faiss.write_index(index, str(folder / "items.faiss"))
    np.save(folder / "queries.npy", query_UE, allow_pickle=False)
    return {
        "items.faiss": "the vector of each item with its bias behind it, by inner product",
        "queries.npy": "the vector of each context with a 1 behind it, to search with",
        **write_ids(contents, folder),
        **write_history(contents.known, folder, "known", "items that lists leave out"),
    }
