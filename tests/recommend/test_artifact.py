from __future__ import annotations

import hashlib
import json
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st

from sdgar.data.history import History
from sdgar.data.ids import Ids
from sdgar.data.interactions import Interactions
from sdgar.errors import ArtifactError, ResourceError, UsageError
from sdgar.models.factors import Factors
from sdgar.recommend import artifact
from sdgar.recommend.artifact import Artifact
from sdgar.storage import folders, sealed


def a_model(seed: int = 0, *, text: bool = True, dim: int = 3) -> Artifact:
    rng = np.random.default_rng(seed)
    users = [f"u{i}" for i in range(5)] if text else list(range(5))
    data = Interactions.from_arrays(users * 2, [1, 2, 3, 4, 5, 2, 3, 4, 5, 6])
    return Artifact(
        model=Factors(
            rng.normal(size=(data.n_users, dim)).astype(np.float32),
            rng.normal(size=(data.n_items, dim)).astype(np.float32),
            rng.normal(size=data.n_items).astype(np.float32),
        ),
        users=data.users,
        items=data.items,
        history=data.history,
        about={"system": "test", "seed": seed},
    )


def same(a: Artifact, b: Artifact) -> bool:
    one, other = (
        (
            m.model.user_UD, m.model.item_ID, m.model.bias_I, m.users.values, m.items.values,
            m.history.indptr_U1, m.history.items_E,
        )
        for m in (a, b)
    )  # fmt: skip
    return all(map(np.array_equal, one, other)) and a.about == b.about


def rewrite(folder: Path, name: str, data: bytes) -> None:
    """Replace a file and mend the manifest, as a forger would."""
    (folder / name).write_bytes(data)
    manifest = json.loads((folder / "manifest.json").read_text())
    files = manifest["files"]
    files[name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    edit_manifest(folder, files=files)


def edit_manifest(folder: Path, **changes) -> None:
    """Change a manifest and seal it again, as a forger would."""
    manifest = json.loads((folder / "manifest.json").read_text()) | changes
    del manifest["seal"]
    (folder / "manifest.json").write_text(json.dumps(sealed.with_seal(manifest)))


@pytest.fixture
def saved(tmp_path) -> Path:
    return artifact.save(a_model(), tmp_path / "model")


@pytest.mark.parametrize("text", [True, False])
@pytest.mark.parametrize("dim", [3, 0])
def test_what_is_saved_is_what_is_loaded(tmp_path, text, dim):
    model = a_model(text=text, dim=dim)
    (tmp_path / "model").mkdir()  # an empty folder is filled
    assert same(artifact.load(artifact.save(model, tmp_path / "model")), model)


@given(
    st.one_of(
        st.lists(ids, min_size=2, max_size=20, unique=True)
        for ids in (
            st.text(min_size=1),
            st.integers(-(2**63), 2**63 - 1),
            st.integers(2**63, 2**64 - 1).map(np.uint64),
        )
    )
)
def test_ids_of_every_kind_survive_byte_for_byte(tmp_path_factory, raw):
    data = Interactions.from_arrays(raw, np.arange(len(raw)))
    n = len(raw)
    factors = Factors(*(np.zeros(shape, np.float32) for shape in ((n, 1), (n, 1), n)))
    model = Artifact(factors, data.users, data.items, data.history)
    loaded = artifact.load(artifact.save(model, tmp_path_factory.mktemp("ids") / "model"))
    assert loaded.users.values.tolist() == data.users.values.tolist()
    assert loaded.users.kind == data.users.kind


def test_the_same_model_is_saved_as_the_same_bytes(tmp_path):
    for name in ("a", "b"):
        artifact.save(a_model(), tmp_path / name)
    for file in (tmp_path / "a").iterdir():
        assert file.read_bytes() == (tmp_path / "b" / file.name).read_bytes()


def test_every_flipped_bit_and_every_other_length_is_noticed(saved):
    rng = np.random.default_rng(0)
    for name in artifact.FILES:
        good = (saved / name).read_bytes()
        changed = [b"", good[:1], good[:-1], good[: len(good) // 2], good + b"\0"]
        for at in rng.integers(0, len(good), 60):
            bad = bytearray(good)
            bad[at] ^= 1 << rng.integers(0, 8)
            changed.append(bytes(bad))
        for data in changed:
            (saved / name).write_bytes(data)
            with pytest.raises(ArtifactError, match="is damaged"):
                artifact.load(saved)
        (saved / name).write_bytes(good)


def test_a_pickle_by_another_name_is_refused_and_never_run(saved, tmp_path):
    canary = tmp_path / "ran"

    class Evil:
        def __reduce__(self):
            return (os.system, (f"touch {canary}",))

    rewrite(saved, "model.safetensors", pickle.dumps(Evil()))
    with pytest.raises(ArtifactError, match="is damaged"):
        artifact.load(saved)
    assert not canary.exists()


def test_no_load_path_can_import_a_pickle_reader():
    sources = Path(artifact.__file__).parent.rglob("*.py")
    banned = ("import pickle", "torch.load", "joblib", "allow_pickle", "import dill", "marshal")
    for source in sources:
        text = source.read_text()
        assert not [word for word in banned if word in text], source


def header(table: dict, body: bytes = b"\0" * 8) -> bytes:
    text = json.dumps(table).encode()
    return len(text).to_bytes(8, "little") + text + body


def tensor(dtype: str, shape: list[int], *offsets: int) -> dict:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


HEADERS = {
    "length_2_63": (2**63).to_bytes(8, "little") + b"{}",
    "length_past_the_end": (2**20).to_bytes(8, "little") + b"{}",
    "not_json": (4).to_bytes(8, "little") + b"nope",
    "offsets_past_the_end": header({"user_UD": tensor("F32", [2, 2], 0, 16)}),
    "negative_shape": header({"user_UD": tensor("F32", [-2], 0, 8)}),
    "overlap": header({"a": tensor("F32", [2], 0, 8), "b": tensor("F32", [1], 4, 8)}),
    "unknown_dtype": header({"a": tensor("OBJ", [1], 0, 8)}),
    "too_few_bytes": header({"a": tensor("F32", [3], 0, 8)}),
    "gap": header({"a": tensor("F32", [2], 4, 12)}),
    "negative_shapes": header({"a": tensor("F32", [-1, -2], 0, 8)}),
    "no_table": header({"a": 7}),
    "list": header([]),
}


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("case", sorted(HEADERS))
def test_a_hostile_header_is_refused(saved, case, mapped):
    rewrite(saved, "model.safetensors", HEADERS[case])
    with pytest.raises(ArtifactError, match="is damaged"):
        artifact.load(saved, mapped=mapped)


def change_tensors(folder: Path, name: str, change) -> None:
    tensors = dict(safetensors.numpy.load((folder / name).read_bytes()))
    change(tensors)
    rewrite(folder, name, safetensors.numpy.save(tensors))


def put(name: str, change):
    """Replace a tensor by a change of it."""
    return lambda tensors: tensors.update({name: change(tensors.get(name))})


def plant(name: str, value: float):
    """Replace the last number of a tensor."""
    return put(name, lambda x: np.append(x.ravel()[:-1], x.dtype.type(value)).reshape(x.shape))


MODEL, IDS, HISTORY = artifact.FILES
TENSORS = {
    "nan_user": (MODEL, plant("user_UD", np.nan), "user_UD holds a number"),
    "inf_item": (MODEL, plant("item_ID", np.inf), "item_ID holds a number"),
    "inf_bias": (MODEL, plant("bias_I", -np.inf), "bias_I holds a number"),
    "missing": (MODEL, lambda t: t.pop("bias_I"), "expected"),
    "extra": (MODEL, put("more", lambda _: np.zeros(1, np.float32)), "expected"),
    "transposed": (MODEL, put("user_UD", lambda x: x.T.copy()), "expected float32"),
    "double": (MODEL, put("user_UD", lambda x: x.astype(np.float64)), "is float64"),
    "history_outside": (HISTORY, plant("items_E", 999), "outside the catalogue"),
    "history_backwards": (HISTORY, plant("indptr_U1", 1), "indptr_U1"),
    "ids_short": (IDS, put("items", lambda x: x[:-1]), "are not 6 numbers"),
    "ids_offsets": (IDS, plant("users.offsets", 1), "do not fit their bytes"),
    "ids_not_utf8": (IDS, put("users.bytes", lambda x: np.full_like(x, 0xFF)), "not UTF-8"),
    "ids_missing": (IDS, lambda t: t.pop("users.bytes"), "are missing"),
}


@pytest.mark.parametrize("case", sorted(TENSORS))
def test_a_well_formed_file_with_wrong_contents_is_refused_by_name(saved, case):
    name, change, message = TENSORS[case]
    change_tensors(saved, name, change)
    with pytest.raises(ArtifactError, match=message) as error:
        artifact.load(saved)
    assert name in str(error.value)


MANIFESTS = {
    "newer": ({"format_version": 99}, "Upgrade sdgar"),
    "older": ({"format_version": 0}, "Train the model again"),
    "foreign": ({"format": "llm"}, "does not describe an sdgar model"),
    "unknown_kind": ({"model": "a forest"}, "no model is of the kind 'a forest'"),
    "no_sizes": ({"sizes": None}, "no table 'sizes'"),
    "text_size": ({"sizes": {"users": "5"}}, "sizes.users is missing"),
    "no_ids": ({"ids": {}}, "ids.users is missing"),
    "no_files": ({"files": {}}, "files.model.safetensors is missing"),
}


@pytest.mark.parametrize("case", sorted(MANIFESTS))
def test_a_manifest_of_another_kind_says_what_to_do(saved, case):
    changes, message = MANIFESTS[case]
    edit_manifest(saved, **changes)
    with pytest.raises(ArtifactError, match=message):
        artifact.load(saved)


def test_what_is_no_model_folder_is_said_to_be_none(tmp_path):
    with pytest.raises(ArtifactError, match="is not a saved model"):
        artifact.load(tmp_path / "nowhere")
    with pytest.raises(ArtifactError, match=r"holds no manifest.json"):
        artifact.load(tmp_path)


def test_a_folder_of_other_things_is_never_replaced(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(UsageError, match=r"'thesis.txt'.*not part of a saved model"):
        artifact.save(a_model(), tmp_path, overwrite=True)
    assert (tmp_path / "thesis.txt").read_text() == "years of work"


@pytest.mark.parametrize(
    "call", [(folders, "write"), (os, "fsync"), (folders, "_exchange_for")], ids=lambda one: one[1]
)
def test_a_failing_disk_is_loud_and_leaves_the_old_model(saved, monkeypatch, call):
    def fail(*_args, **_kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(*call, fail)
    with pytest.raises(ResourceError, match="No space left on device"):
        artifact.save(a_model(1), saved, overwrite=True)
    monkeypatch.undo()
    assert same(artifact.load(saved), a_model(0))
    assert [p.name for p in saved.parent.iterdir()] == ["model"]


def test_temporary_folders_of_dead_writers_are_removed_and_those_of_living_ones_kept(saved):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    orphan = saved.parent / f".model.tmp-{dead.pid}-abcd"
    busy = saved.parent / f".model.tmp-{os.getpid()}-abcd"
    orphan.mkdir()
    busy.mkdir()
    artifact.save(a_model(1), saved, overwrite=True)
    assert not orphan.exists()
    assert busy.exists()


def big_model(seed: int) -> Artifact:
    n = 20_000
    rng = np.random.default_rng(seed)
    ids = Ids(np.arange(n))
    history = History(np.arange(n + 1), np.arange(n, dtype=np.int32))
    user, item = rng.normal(size=(2, n, 16)).astype(np.float32)
    model = Factors(user, item, np.zeros(n, np.float32))
    return Artifact(model, ids, ids, history, {"seed": seed})


SAVER = """
import os, runpy, sys
from sdgar.recommend import artifact
models = [runpy.run_path({tests!r})["big_model"](seed) for seed in (0, 1, 2)]
for line in sys.stdin:  # fork a saver for every line; the parent is quick to fork again
    child = os.fork()
    if child == 0:
        print(os.getpid(), flush=True)
        n = int(line)
        while True:
            artifact.save(models[n % 3], {path!r}, overwrite=True)
            print("saved", n, flush=True)
            n += 1
    os.waitpid(child, 0)
    print("dead", flush=True)
"""


@pytest.mark.parametrize("kills", [12, pytest.param(30, marks=pytest.mark.exhaustive)])
def test_kill_9_at_random_moments_of_saving_never_leaves_a_wrong_model(tmp_path, kills):
    """The folder loads, verified, as the model that was saved last or the one after it."""
    path = tmp_path / "model"
    script = SAVER.format(tests=__file__, path=str(path))
    legal = [big_model(seed) for seed in (0, 1, 2)]
    rng = np.random.default_rng(0)
    start = time.perf_counter()
    for _ in range(3):
        artifact.save(legal[0], path, overwrite=True)
    one_save = (time.perf_counter() - start) / 3  # on this machine, while other programs run
    saved = 0
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        for _ in range(kills):
            parent.stdin.write(f"{saved + 1}\n")
            parent.stdin.flush()
            saver = int(parent.stdout.readline())
            for _ in range(rng.integers(0, 3)):
                saved = int(parent.stdout.readline().removeprefix("saved "))
            time.sleep(rng.uniform(0, one_save))
            os.kill(saver, signal.SIGKILL)
            while (line := parent.stdout.readline()) != "dead\n":
                saved = int(line.removeprefix("saved "))
            loaded = artifact.load(path)
            seed = loaded.about["seed"]
            assert seed in (saved % 3, (saved + 1) % 3)
            assert same(loaded, legal[seed])
            saved += seed != saved % 3  # it was saved, and killed before it could say so
        parent.stdin.close()
    assert saved > 0
    artifact.save(legal[0], path, overwrite=True)
    assert [p.name for p in tmp_path.iterdir()] == ["model"]
