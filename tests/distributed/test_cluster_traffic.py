"""Which bytes travel between workers."""

import logging
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tensorcontrast import PLC
from tensorcontrast.cp import scaling
from tensorcontrast.datasets import make_cp_tensor
from tensorcontrast.solvers.prepare import prepare

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")
on = pytest.importorskip("tensorcontrast.distributed.blocks")
DaskSource = pytest.importorskip("tensorcontrast.distributed.source").DaskSource
Spread = pytest.importorskip("tensorcontrast.distributed.spread").Spread

N, DIMS = 2100, (6, 10, 8)


def sent(dask_worker: Any) -> int:
    return int(dask_worker.transfer_outgoing_bytes_total)


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """Of two workers, where the scheduler takes no task from the one that it was given to."""
    with (
        dask.config.set({"distributed.scheduler.work-stealing": False}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=logging.CRITICAL
        ) as cluster,
        distributed.Client(cluster, timeout=60) as made,
    ):
        yield made


def test_workers_have_equal_shares_of_what_is_read(client: Any) -> None:
    X = make_cp_tensor(n_samples=8 * 512, dims=DIMS, rank=4, random_state=0)[0].astype(np.float32)
    blocks = da.from_array(X, chunks=(512, *DIMS))
    kept = blocks.persist(workers=[min(client.nthreads())])
    distributed.wait(kept)
    for data in (blocks, kept):
        source = DaskSource(data)
        views = source.views(prepare(source, None, 4, center=True, scale=True), None)
        if data is blocks:
            assert [len(places) for places in views.groups.places] == [4, 4]
        assert source._kept is None
        held = np.concatenate([part.X for part in dask.compute(*views.blocks)])
        mean, size = scaling.learn(X, center=True)
        np.testing.assert_array_equal(held, scaling.normalised(X, mean, size))


def test_parts_stay_with_their_workers(client: Any) -> None:
    X = make_cp_tensor(n_samples=N, dims=DIMS, rank=4, random_state=0)[0].astype(np.float32)
    moved = []
    for repeats in (1, 2):
        marks: dict[int, int] = {}

        def mark(row: dict[str, float], marks: dict[int, int] = marks) -> None:
            marks[int(row["iteration"])] = sum(client.run(sent).values())

        blocks = da.from_array(np.concatenate([X] * repeats), chunks=(300, *DIMS))
        PLC.paper(
            rank=4, random_state=0, max_iter=5, tol=0.0, compress=[3, 5, 4], callback=mark
        ).fit(blocks)
        moved.append(marks[5] - marks[2])
    features = 2 * 4 * 4 * N  # of one view, twice the samples; three iterations make six
    assert 0 <= moved[1] < 1.5 * moved[0] + features / 2


def test_work_over_features_names_a_block_of_their_part() -> None:
    """Features are small enough to be taken by an idle worker; with a block beside them not."""
    blocks = [dask.delayed(np.full)(3, i) for i in range(3)]
    groups = on.Groups([[0, 2], [1]], ["", ""])
    for anchors in ([blocks[0], blocks[1]], None):
        parts = Spread([3, 3, 3], groups, anchors)
        made = parts.each(np.sum, [np.arange(6), np.arange(3)])
        assert list(dask.compute(*made)) == [15, 3]
        for task, block in zip(made, blocks[:2], strict=True):
            assert (block.key in task.__dask_graph__()) == (anchors is not None)
