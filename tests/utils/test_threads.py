"""Thread limits: in force inside, set back outside."""

import threading

import numpy as np
import pytest
import threadpoolctl

from tensorcontrast import CPD
from tensorcontrast.utils import threads


def blas_threads():
    return {p["num_threads"] for p in threadpoolctl.threadpool_info() if p["user_api"] == "blas"}


def test_limit_is_in_force_and_set_back():
    before = blas_threads()
    with threads.for_work(10):
        assert blas_threads() == {1}
        with threads.single("blas"):
            assert blas_threads() == {1}
        assert blas_threads() == {1}
    assert blas_threads() == before
    with threads.for_work(threads.WORTH_THREADS):
        assert blas_threads() == before


def test_fits_in_several_threads_at_once_leave_the_limits_as_they_were():
    before = blas_threads()
    X = np.random.default_rng(0).normal(size=(60, 4, 5))
    alone = CPD(rank=2, random_state=0).fit_transform(X)
    found = [None] * 4

    def fit(i):
        found[i] = CPD(rank=2, random_state=0).fit_transform(X)

    workers = [threading.Thread(target=fit, args=(i,)) for i in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert blas_threads() == before
    for features in found:
        np.testing.assert_allclose(features, alone, rtol=1e-6)


def test_set_back_after_an_error_in_a_fit():
    before = blas_threads()
    X = np.random.default_rng(0).normal(size=(20, 4, 5))

    def fail(terms):
        raise RuntimeError("from the callback")

    try:
        CPD(rank=2, callback=fail).fit(X)
    except RuntimeError:
        pass
    assert blas_threads() == before


def test_jobs_limit_blas_and_shared_work():
    before = blas_threads()
    free = threads.allowed()
    with threads.jobs(1):
        assert blas_threads() == {1}
        assert threads.allowed() == 1
        with threads.jobs(-1):  # of two limits the lower one holds
            assert blas_threads() == {1}
            assert threads.allowed() == 1
    with threads.single("blas"):
        assert threads.allowed() == free  # threads of our own take the place of BLAS's
    with threads.jobs(None):
        assert threads.allowed() == free
    assert blas_threads() == before
    assert threads.allowed() == free


def test_mapped_keeps_the_order_and_passes_errors_on():
    assert list(threads.mapped(lambda i: i * i, range(50))) == [i * i for i in range(50)]
    assert list(threads.mapped(str, [])) == []

    def fail(i):
        if i == 7:
            raise ValueError("seven")
        return i

    found = []
    with pytest.raises(ValueError, match="seven"):
        found.extend(threads.mapped(fail, range(20)))
