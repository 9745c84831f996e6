"""Training from Parquet: the order of shards, the reader's memory, and runs that learn from it."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from luvli.data.augment import Augmentation
from luvli.data.dataset import CropDataset
from luvli.data.formats.label_parquet import write_label_shards
from luvli.data.sets import load_set
from luvli.data.shards import ShardedFaces
from luvli.data.streamed_crops import StreamedCrops
from luvli.errors import InputError
from luvli.network import load_model
from luvli.training import shard_order
from luvli.training.loop import RunOptions, train
from luvli.training.order import Sharded, StageOrder
from luvli.training.recipe import Recipe
from luvli.training.shard_order import ShardOrder
from luvli.training.sources import hold_out
from luvli.training.streamed_source import held_out_rows

pq = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow (extra scale)")

MakeRecipe = Callable[..., Recipe]
shards = st.lists(st.integers(0, 9), min_size=1, max_size=8).filter(any)


def order(sizes: list[int], buffer: int, **changes: Any) -> StageOrder:
    fields = {"batch_size": 4, "epochs": 3} | changes
    return StageOrder(5, [sum(sizes)], [sum(sizes)], shards=[Sharded(sizes, buffer)], **fields)


@given(shards, st.integers(1, 30), st.integers(0, 3))
@settings(max_examples=60)
def test_each_face_comes_once_a_round(sizes: list[int], buffer: int, seed: int) -> None:
    total = sum(sizes)
    faces = ShardOrder(seed, 0, sizes, buffer)
    for turn in range(2):
        drawn = faces.draws(turn * total, (turn + 1) * total)
        assert (drawn[:, 0] == turn).all()
        assert sorted(drawn[:, 1].tolist()) == list(range(total))
    # from any place on the sequence goes on as it would have
    whole = faces.draws(0, 2 * total)
    for start in range(0, 2 * total, 7):
        late = ShardOrder(seed, 0, sizes, buffer).draws(start, 2 * total)
        np.testing.assert_array_equal(late, whole[start:])


@given(shards, st.integers(1, 30))
@settings(max_examples=60)
def test_few_shards_are_open_at_a_time(sizes: list[int], buffer: int) -> None:
    """Whoever keeps `buffer` faces and one shard reads every shard once a round."""
    faces = ShardOrder(0, 0, sizes, buffer)
    shard_of = np.repeat(np.arange(len(sizes)), sizes)
    changes = []
    for _, index in faces.draws(0, sum(sizes)).tolist():
        if not changes or changes[-1] != shard_of[index]:
            changes.append(int(shard_of[index]))
    held: list[int] = []
    read = 0
    for shard in changes:
        if shard in held:
            held.remove(shard)
        else:
            read += 1
        held.append(shard)
        while len(held) > 1 and sum(sizes[s] for s in held) > buffer + max(sizes):
            held.pop(0)
    assert read == sum(size > 0 for size in sizes)


def test_orders_repeat_and_differ_by_seed_and_round() -> None:
    sizes = [20] * 10
    first = ShardOrder(0, 0, sizes, 60).draws(0, 200)
    np.testing.assert_array_equal(first, ShardOrder(0, 0, sizes, 60).draws(0, 200))
    assert (first[:, 1] != ShardOrder(1, 0, sizes, 60).draws(0, 200)[:, 1]).any()
    assert (first[:, 1] != ShardOrder(0, 0, sizes, 60).draws(200, 400)[:, 1]).any()
    assert len(set((first[:60, 1] // 20).tolist())) == 3  # a window mixes its shards
    assert (np.diff(first[:20, 1]) != 1).any()


@given(st.integers(0, 14))
@settings(max_examples=15)
def test_a_stage_is_entered_at_any_step(start: int) -> None:
    whole = [np.array(batch).tolist() for batch in order([7, 0, 9, 4], 8)]
    late = [np.array(batch).tolist() for batch in order([7, 0, 9, 4], 8, start=start)]
    assert len(whole) == 15 and late == whole[start:]


def test_two_processes_share_every_face() -> None:
    sizes = [7, 9, 4, 12]
    both = [order(sizes, 8, rank=rank, world=2, epochs=1) for rank in range(2)]
    seen = [Counter(int(draw[2]) for batch in one for draw in batch) for one in both]
    assert not seen[0] & seen[1]
    assert seen[0] + seen[1] == Counter(range(32))


def test_sources_are_mixed_by_their_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    """In memory and in shards, over blocks much smaller than an epoch."""
    monkeypatch.setattr(shard_order, "BLOCK", 20)
    made = StageOrder(
        3, [50, 40], [25, 75], 10, epochs=2, shards=[None, Sharded([8] * 5, 10)]
    )  # fmt: skip
    draws = np.concatenate([np.array(batch) for batch in made])
    assert Counter(draws[:, 0].tolist()) == {0: 50, 1: 150}
    assert sorted(draws[draws[:, 0] == 0, 2].tolist()) == list(range(50))
    assert len({tuple(draw) for draw in draws.tolist()}) == 200
    assert (draws[:, 0].reshape(10, 20).sum(axis=1) == 15).all()  # evenly over the epoch


@pytest.fixture(scope="module")
def shards_folder(faces_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The twenty drawn faces in three files, four faces in a row group."""
    records = load_set("folder", faces_folder)
    place = tmp_path_factory.mktemp("parquet") / "shards"
    files = write_label_shards(place, records, file_faces=8, group_faces=4)
    assert [pq.ParquetFile(f).num_row_groups for f in files] == [2, 2, 1]
    return place


def test_what_was_exported_is_read_again(faces_folder: Path, shards_folder: Path) -> None:
    faces, again = load_set("folder", faces_folder), ShardedFaces(shards_folder, keep=4)
    assert again.sizes == [4, 4, 4, 4, 4] and len(again) == 20
    for i, face in enumerate(faces):
        record, image = again.open(i)
        assert face.image is not None and image == face.image.read_bytes()
        np.testing.assert_array_equal(record.points, face.points)
        np.testing.assert_array_equal(record.visibility, face.visibility)
        assert (record.face_id, record.markup) == (face.face_id, face.markup)
    loaded = load_set("parquet", shards_folder)
    assert [r.face_id for r in loaded] == [r.face_id for r in faces]
    assert loaded[3].image is not None and faces[3].image is not None
    assert loaded[3].image.read_bytes() == faces[3].image.read_bytes()


def test_crops_are_those_of_the_folder(faces_folder: Path, shards_folder: Path) -> None:
    faces = list(load_set("folder", faces_folder))
    how: dict[str, Any] = {"enlarge": 1.3, "augmentation": Augmentation.recipe("A"), "seed": 7}
    here = CropDataset(faces, 64, **how)
    there = StreamedCrops(ShardedFaces(shards_folder, keep=4), 64, **how)
    for i in (0, 7, 19, 3):
        a, b = here[2, i], there[2, i]
        for key in a:
            np.testing.assert_array_equal(a[key], b[key], err_msg=key)
    np.testing.assert_array_equal(here.plain_points(), there.plain_points())
    hidden = [classes for part in there.label_classes() for classes in part]
    np.testing.assert_array_equal(hidden, np.concatenate(list(here.label_classes())))


def test_memory_holds_a_window_and_copies_hold_none(shards_folder: Path) -> None:
    faces = ShardedFaces(shards_folder, keep=8)
    small = len(pickle.dumps(faces))
    drawn = ShardOrder(0, 0, faces.sizes, 8).draws(0, 60)
    most = 0
    for _, index in drawn.tolist():
        faces.open(index)
        most = max(most, sum(faces.shards[s].rows for s in faces._open))
    assert most == 12  # the window, and the shard that comes next
    assert len(pickle.dumps(faces)) == small


def test_held_out_faces_are_those_of_the_same_set_in_memory(
    faces_folder: Path, shards_folder: Path
) -> None:
    records = load_set("folder", faces_folder)
    faces = ShardedFaces(shards_folder)
    for amount in (3, 0.3):
        away = held_out_rows(faces, amount, "photo")
        kept, held = hold_out(records, amount)
        first = np.cumsum([0, *faces.sizes])
        chosen = {faces[int(first[s]) + row].face_id for s, rows in away.items() for row in rows}
        assert chosen == {record.face_id for record in held}
        rest = faces.without(away)
        assert [rest[i].face_id for i in range(len(rest))] == [record.face_id for record in kept]


def streamed(make: MakeRecipe, folder: Path, **changes: Any) -> Recipe:
    source = {"set": "parquet", "path": str(folder), "hold_out": 4, "shuffle_buffer": 8}
    content = {"data": {"sources": {"mine": source}}, "stages": {"luvli": None}}
    return make(**(content | changes))


def test_a_run_that_was_stopped_ends_in_the_same_weights(
    small_recipe: MakeRecipe, shards_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from luvli.training import stage
    from luvli.training.distributed import Stopped

    recipe = streamed(small_recipe, shards_folder)
    whole = load_model(train(recipe, tmp_path / "whole"))[0].state_dict()

    plain = stage.StageTrainer._must_stop
    with monkeypatch.context() as patch, pytest.raises(Stopped):
        patch.setattr(stage.StageTrainer, "_must_stop", lambda self, _: self.counter.step == 3)
        train(recipe, tmp_path / "cut")
    assert stage.StageTrainer._must_stop is plain
    again = load_model(train(recipe, tmp_path / "cut", RunOptions(resume=True)))[0].state_dict()
    assert all((whole[name] == again[name]).all() for name in whole)


@pytest.mark.slow
def test_watched_sets_and_workers(
    small_recipe: MakeRecipe, shards_folder: Path, tmp_path: Path
) -> None:
    """Parquet beside a folder, watched too, with a process that prepares data: the same model."""
    source = {"set": "parquet", "path": str(shards_folder)}
    data = {"sources": {"shards": source}, "validation": {"watched": source}}
    stage = {"epochs": 1, "mixture": {"mine": 1, "shards": 1}, "epoch_faces": 16}
    recipe = small_recipe(data=data, stages={"heatmaps": stage, "luvli": None})
    one = load_model(train(recipe, tmp_path / "a"))
    two = load_model(train(recipe, tmp_path / "b", RunOptions(workers=1)))
    assert set(one[1]["validation"]) == {"mine", "watched"}
    a, b = one[0].state_dict(), two[0].state_dict()
    assert all((a[name] == b[name]).all() for name in a)


def test_bad_images_end_a_run_or_are_replaced(shards_folder: Path, tmp_path: Path) -> None:
    table = pq.read_table(sorted(shards_folder.glob("*.parquet"))[0])
    images = table["image"].to_pylist()
    images[2] = b"nonsense"
    images[3] = None
    import pyarrow

    table = table.set_column(0, table.schema.field("image"), pyarrow.array(images))
    (tmp_path / "bad").mkdir()
    pq.write_table(table, tmp_path / "bad/a.parquet", row_group_size=4)
    faces = ShardedFaces(tmp_path / "bad")
    with pytest.raises(InputError, match=r"a\.parquet#2 cannot be learnt from.*skip_bad"):
        StreamedCrops(faces, 64)[2]
    with pytest.raises(InputError, match=r"a\.parquet#3 .*has no image"):
        StreamedCrops(faces, 64)[3]
    sample = StreamedCrops(faces, 64, skip_bad=True)[0, 2]
    assert int(sample["index"]) == 0  # the next one that can be used, in the same row group


def test_bad_input_is_one_sentence(
    small_recipe: MakeRecipe, shards_folder: Path, tmp_path: Path, luvli: Any
) -> None:
    (tmp_path / "none").mkdir()
    with pytest.raises(InputError, match="holds no Parquet file"):
        ShardedFaces(tmp_path / "none")
    (tmp_path / "none/a.parquet").write_bytes(b"nonsense")
    with pytest.raises(InputError, match="not a readable Parquet file"):
        ShardedFaces(tmp_path / "none")
    table = pq.read_table(shards_folder).drop_columns(["points"])
    pq.write_table(table, tmp_path / "none/a.parquet")
    with pytest.raises(InputError, match="has no column 'points'"):
        ShardedFaces(tmp_path / "none")
    for key, value in {"limit": 5, "relabel": "luvli-68", "boxes": "detector"}.items():
        source = {"set": "parquet", key: value}
        with pytest.raises(InputError, match=key):
            small_recipe(data={"sources": {"mine": source}})
    with pytest.raises(InputError, match="is there already"):
        write_label_shards(shards_folder, load_set("parquet", shards_folder))
