"""Files of tensors that are written piece by piece."""

import hashlib

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st

from sdgar.storage import arrays
from sdgar.storage.arrays import map_tensors, size_of, write_tensors
from sdgar.storage.sealed import DamagedError, check_file

TYPES = ("uint64", "int64", "float64", "float32", "uint32", "int32", "float16", "uint16", "int16",
         "int8", "uint8", "bool")  # fmt: skip
TENSORS = st.dictionaries(
    st.text(st.characters(codec="utf-8", categories=("L", "N", "P")), min_size=1, max_size=8),
    st.tuples(st.sampled_from(TYPES), st.lists(st.integers(0, 4), max_size=3)),
    max_size=6,
)


@given(TENSORS)
@settings(max_examples=60)
def test_the_bytes_are_those_of_the_library(tmp_path_factory, shapes):
    tensors = {n: np.arange(np.prod(s)).reshape(s).astype(d) for n, (d, s) in shapes.items()}
    path = tmp_path_factory.mktemp("tensors") / "file"
    seal = write_tensors(path, tensors)
    expected = safetensors.numpy.save(tensors)
    assert path.read_bytes() == expected
    assert seal == {"bytes": len(expected), "sha256": hashlib.sha256(expected).hexdigest()}
    assert size_of(tensors) == len(expected)
    mapped = map_tensors(path)
    assert mapped.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert mapped[name].dtype == tensor.dtype
        assert np.array_equal(mapped[name], tensor)


@pytest.mark.parametrize("left", [0, 3, 20, -1])
def test_a_file_that_is_cut_is_not_mapped(tmp_path, left):
    path = tmp_path / "file"
    write_tensors(path, {"x": np.arange(6.0), "y": np.arange(3)})
    path.write_bytes(path.read_bytes()[:left])
    with pytest.raises(ValueError):
        map_tensors(path)


def test_a_file_with_another_header_is_not_mapped(tmp_path):
    for header in (b"[1]", b'{"x": 3}', b'{"x": {"dtype": "F12", "data_offsets": [0, 0]}}', b"{"):
        (tmp_path / "file").write_bytes(len(header).to_bytes(8, "little") + header)
        with pytest.raises(ValueError):
            map_tensors(tmp_path / "file")


def test_arrays_in_files_are_written_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(arrays, "_AT_ONCE", 64)
    mapped = np.memmap(tmp_path / "mapped", np.float32, "w+", shape=(100, 3))
    mapped[...] = np.arange(300).reshape(100, 3)
    write_tensors(tmp_path / "file", {"x": mapped, "turned": mapped.T})
    found = safetensors.numpy.load_file(tmp_path / "file")
    assert np.array_equal(found["x"], mapped)
    assert np.array_equal(found["turned"], mapped.T)


def test_a_file_that_is_not_what_its_seal_says_is_refused(tmp_path):
    path = tmp_path / "file"
    seal = write_tensors(path, {"x": np.arange(3)})
    check_file(path, {"file": seal})
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(DamagedError, match="its SHA-256 is"):
        check_file(path, {"file": seal})
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DamagedError, match="bytes, the manifest says"):
        check_file(path, {"file": seal})
