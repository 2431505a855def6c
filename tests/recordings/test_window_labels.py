"""Labels of windows from labelled segments and from labels of samples."""

import tracemalloc

import numpy as np
import pytest

from tensorcontrast.errors import InvalidInputError, TensorContrastWarning
from tensorcontrast.recordings.windows import (
    Segment,
    _window_labels,
    check_segments,
    label_segments,
    label_windows,
)


def test_the_label_that_covers_most_of_a_window_is_taken():
    segments = [Segment(0, 45, "wake"), Segment(45, 70, "sleep"), Segment(80, 85, "wake")]
    found = label_windows([0, 30, 60, 75], [30, 60, 90, 85], segments)
    assert found.tolist() == ["wake", None, None, "wake"]  # the second is half and half


def test_a_label_must_cover_the_share_asked_for():
    segments = [Segment(0, 6, "a"), Segment(6, 10, "b")]
    assert label_windows([0], [10], segments, min_share=0.6).tolist() == ["a"]
    assert label_windows([0], [10], segments, min_share=0.61).tolist() == [None]
    three = [Segment(0, 4, "a"), Segment(4, 7, "b"), Segment(7, 10, "c")]
    assert label_windows([0], [10], three).tolist() == [None]
    assert label_windows([0], [10], three, min_share=0.01).tolist() == ["a"]
    with pytest.raises(InvalidInputError, match="min_share"):
        label_windows([0], [10], segments, min_share=0)


def test_time_that_segments_of_one_label_share_counts_once():
    segments = [Segment(0, 3, "a"), Segment(1, 4, "a"), Segment(2, 3, "a"), Segment(4, 10, "b")]
    assert label_windows([0], [10], segments).tolist() == ["b"]


def test_windows_that_two_labels_cover_equally_have_none():
    segments = [Segment(0, 0.1 * 3, 2), Segment(0.1 * 3, 0.6, 1)]
    assert label_windows([0], [0.6], segments).tolist() == [None]
    assert label_windows([0, 1], [1, 2], []).tolist() == [None, None]
    three = [Segment(0, 2, "a"), Segment(2, 4, "b"), Segment(4, 7, "c")]
    found = label_windows([0, 0, 2], [7, 4, 7], three, min_share=0.1)
    assert found.tolist() == ["c", None, "c"]


def test_labels_agree_with_counting_samples():
    rng = np.random.default_rng(0)
    labels = np.repeat(rng.integers(-1, 4, size=60), rng.integers(1, 30, size=60))
    start = np.arange(0, len(labels) - 25, 7)
    found = label_windows(start, start + 25, label_segments(labels), min_share=0.3)
    for a, label in zip(start, found, strict=True):
        counts = np.bincount(labels[a : a + 25] + 1, minlength=5)[1:]
        enough = counts.max() >= 0.3 * 25 and (counts == counts.max()).sum() == 1
        wanted = int(counts.argmax()) if enough else None
        assert label == wanted


def test_unknown_samples_belong_to_no_segment():
    assert label_segments(["a", "a", None, "", "b"]) == [Segment(0, 2, "a"), Segment(4, 5, "b")]
    assert label_segments([np.nan, np.nan]) == []


def test_segments_that_contradict_each_other_are_refused():
    with pytest.raises(InvalidInputError, match=r"night: 'b' at 5 s overlaps 'a'.* 0 to 10 s"):
        check_segments("night", [Segment(0, 10, "a"), Segment(2, 3, "a"), Segment(5, 6, "b")], 20)
    good = [Segment(0, 10, "a"), Segment(10 - 1e-9, 12, "b")]
    assert [s.label for s in check_segments("night", good, 20)] == ["a", "b"]


def test_segments_outside_the_recording_are_left_out_with_a_warning():
    segments = [Segment(-2, 5, "a"), Segment(5, 25, "b"), Segment(40, 50, "a")]
    with pytest.warns(TensorContrastWarning, match="3 of 3 labelled segments"):
        assert check_segments("night", segments, 20) == [Segment(0, 5, "a"), Segment(5, 20, "b")]
    with pytest.raises(InvalidInputError, match="all 1 labelled segments lie outside"):
        check_segments("night", [Segment(30, 40, "a")], 20)


def test_labels_per_sample_need_memory_for_the_samples_alone():
    codes = np.random.default_rng(0).integers(0, 100, 200_000)
    start = np.arange(0, 199_000, 1000)
    tracemalloc.start()
    found, whole = _window_labels(codes, start, 1000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 * codes.nbytes
    slow = [np.bincount(codes[a : a + 1000]).argmax() for a in start]
    np.testing.assert_array_equal(found, slow)
    assert not whole.any()
