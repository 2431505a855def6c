import json
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import scipy.signal
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorcontrast.augment import (
    Augmentation,
    BandPass,
    ChannelMix,
    Compose,
    Crop,
    Jitter,
    Rotate3D,
    Scale,
    TimeShift,
    TimeStretch,
    gentle,
    paper,
    standard,
)
from tensorcontrast.augment.presets import HAR_CHANNELS
from tensorcontrast.augment.rotate import find_triples
from tensorcontrast.errors import InvalidInputError

SIX = ("acc_x", "acc_y", "acc_z", "gyro_x", "gyro_y", "gyro_z")
TRIPLES = ((0, 1, 2), (3, 4, 5))

ALL = [
    Jitter(),
    Jitter(0.1, kind="low"),
    Jitter(0.1, kind="both", relative="range"),
    Jitter(0.1, kind="random", distribution="uniform"),
    BandPass(50, ((1, 20), (5, 24.5))),
    Rotate3D(TRIPLES),
    Rotate3D(TRIPLES, max_angle=180),
    Scale(0.2),
    TimeShift(),
    TimeShift(0.1),
    Crop(),
    Crop(2),
    TimeStretch(),
    TimeStretch(0.5),
    ChannelMix((1, 2, 3, 1, 2, 0), 0.1),
    Compose((Jitter(), Scale(), Rotate3D(TRIPLES))),
    gentle(),
]


def signals(n=7, c=6, t=128, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).normal(size=(n, c, t)).astype(dtype)


# All of them


@pytest.mark.parametrize("aug", ALL, ids=str)
def test_pure_seeded_and_of_the_same_kind(aug):
    X = signals()
    X.flags.writeable = False
    out = aug(X, 3)
    assert out.shape == X.shape
    assert out.dtype == X.dtype
    assert out.flags.writeable
    assert not np.shares_memory(out, X)
    np.testing.assert_array_equal(X, signals())
    np.testing.assert_array_equal(aug(X, np.random.default_rng(3)), out)
    np.testing.assert_array_equal(aug(np.asfortranarray(X), 3), out)
    assert not np.array_equal(aug(X, 4), out)
    assert not np.array_equal(out, X)
    rng = np.random.default_rng(3)
    assert not np.array_equal(aug(X, rng), aug(X, rng))  # the generator moves on


@pytest.mark.parametrize("aug", ALL, ids=str)
def test_samples_differ_from_each_other(aug):
    X = np.repeat(signals(1), 40, axis=0)
    out = aug(X, 0)
    assert len(np.unique(out.reshape(40, -1), axis=0)) > 1


# NumPy draws other noise for other precisions.
@pytest.mark.parametrize("aug", [aug for aug in ALL if "Jitter" not in repr(aug)], ids=str)
def test_precisions_agree(aug):
    X = signals(dtype=np.float64)
    exact, single = aug(X, 0), aug(X.astype(np.float32), 0)
    assert exact.dtype == np.float64
    np.testing.assert_allclose(single, exact, atol=1e-4)
    half = aug(X.astype(np.float16), 0)
    assert half.dtype == np.float16
    np.testing.assert_allclose(half, exact, atol=2e-2)


@pytest.mark.parametrize("aug", ALL, ids=str)
def test_no_samples(aug):
    assert aug(signals()[:0], 0).shape == (0, 6, 128)


@pytest.mark.parametrize("aug", ALL, ids=str)
def test_configuration_survives_json(aug):
    data = json.loads(json.dumps(aug.to_config(), allow_nan=False))
    back = Augmentation.from_config(data)
    assert back == aug
    assert type(aug).from_config(data) == aug
    assert hash(back) == hash(aug)
    np.testing.assert_array_equal(back(signals(), 5), aug(signals(), 5))
    assert pickle.loads(pickle.dumps(aug)) == aug


@pytest.mark.parametrize("aug", ALL, ids=str)
def test_bad_signals(aug):
    X = signals(20)
    for bad, message in (
        (X[0], r"2 dimensions .*\[n, channel, time\]"),
        (X[:, :, :0], "no time sample"),
        (X[:, :0], "no channel"),
        (np.round(X).astype(np.int16), r"int16.*convert it first"),
        (X.astype(complex), "complex"),
        ([[[1.0, 2.0], [1.0]]], "same channels and length"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            aug(bad, 0)
    X[17, 3, :12] = np.nan
    with pytest.raises(InvalidInputError, match=r"X\[17\] channel 3 holds 12 NaN of 128 samples"):
        aug(X, 0)


def test_blocks_bound_the_memory_but_reach_every_sample():
    X = signals(7)
    out = Scale(0.5)(X, 0, block_values=2 * 6 * 128)
    factor = (out / X).mean(axis=(1, 2))
    np.testing.assert_allclose(out, X * factor[:, None, None], rtol=1e-5)
    assert len(np.unique(factor.round(6))) == 7


@settings(deadline=None, max_examples=60)
@given(
    n=st.integers(0, 5),
    triples=st.integers(1, 3),
    t=st.integers(2, 80),
    dtype=st.sampled_from([np.float32, np.float64]),
    seed=st.integers(0, 2**32),
)
def test_any_shape(n, triples, t, dtype, seed):
    names = tuple(f"s{i}_{axis}" for i in range(triples) for axis in "xyz")
    aug = Compose(
        (
            Jitter(kind="random"),
            Scale(),
            BandPass(10, ((1, 2), (1, 4.9))),
            Rotate3D(find_triples(names)),
            TimeShift(0.5),
            TimeStretch(3),
            ChannelMix((1.0,) * (3 * triples)),
            Crop(t // 2),
        )
    )
    X = signals(n, 3 * triples, t, seed % 100, dtype)
    before = X.copy()
    out = aug(X, seed)
    assert out.shape == X.shape
    assert out.dtype == dtype
    assert np.isfinite(out).all()
    np.testing.assert_array_equal(X, before)
    np.testing.assert_array_equal(aug(X, seed), out)


# Jitter


@pytest.mark.parametrize("distribution", ["normal", "uniform"])
@pytest.mark.parametrize(("kind", "expected"), [("high", 1), ("low", 1), ("both", 2**0.5)])
def test_jitter_level(kind, expected, distribution):
    size = np.array([1.0, 5.0, 0.0])  # standard deviations; the last channel is constant
    X = signals(400, 3, 100, dtype=np.float64)
    X = (X - X.mean(2, keepdims=True)) / X.std(2, keepdims=True) * size[:, None] + 7
    noise = Jitter(0.1, kind=kind, distribution=distribution)(X, 1) - X
    np.testing.assert_allclose(noise.std(axis=(0, 2)), 0.1 * expected * size, rtol=0.03)
    np.testing.assert_allclose(noise.mean(axis=(0, 2)), 0, atol=0.03)
    # as strong at every time, also between the points of the grid
    np.testing.assert_allclose(noise[:, 0].std(axis=0), 0.1 * expected, rtol=0.2)
    np.testing.assert_allclose(noise[:, 0].std(axis=0).mean(), 0.1 * expected, rtol=0.03)


def test_jitter_relative_to_range_or_absolute():
    X = np.zeros((500, 2, 64))
    X[:, 0, 10], X[:, 1, 20] = 4, -8
    noise = Jitter(0.5, relative="range", distribution="uniform")(X, 0) - X
    np.testing.assert_allclose(noise.std(axis=(0, 2)), [2, 4], rtol=0.03)
    np.testing.assert_allclose(np.abs(noise).max(axis=(0, 2)), np.sqrt(3) * np.array([2, 4]), 0.01)
    noise = Jitter(0.5, relative="absolute")(X, 0) - X
    np.testing.assert_allclose(noise.std(axis=(0, 2)), 0.5, rtol=0.03)


def test_jitter_power_lies_where_its_kind_says():
    X = np.zeros((300, 2, 200))
    power = {}
    for kind in ("high", "low"):
        noise = Jitter(1, kind=kind, relative="absolute")(X, 0)
        spectrum = (np.abs(np.fft.rfft(noise)) ** 2).mean(axis=(0, 1))[1:]
        power[kind] = spectrum / spectrum.sum()
    # 20 points over 200 samples: the noise varies at up to a tenth of the Nyquist frequency.
    assert power["low"][:10].sum() > 0.75
    assert power["low"][:20].sum() > 0.95
    np.testing.assert_allclose(power["high"][:10].sum(), 0.1, atol=0.01)


def test_low_jitter_equals_interpolation_of_each_channel():
    X = np.zeros((3, 2, 60))
    out = Jitter(0.3, kind="low", relative="absolute")(X, 8)
    coarse = 0.3 * np.random.default_rng(8).standard_normal((3, 2, 6))
    place = np.linspace(0, 5, 60)
    part = place - np.floor(place)
    strength = np.sqrt(part**2 + (1 - part) ** 2)
    for i in range(3):
        for j in range(2):
            expected = np.interp(place, np.arange(6), coarse[i, j]) / strength
            np.testing.assert_allclose(out[i, j], expected, atol=1e-12)


def test_jitter_picks_a_kind_for_each_channel():
    X = np.zeros((3000, 2, 40))
    noise = Jitter(1, kind="random", relative="absolute")(X, 0)
    # white, smooth, and twice the variance where both are added
    heard = noise.reshape(-1, 40)
    roughness = (np.diff(heard, axis=1) ** 2).mean(axis=1)
    np.testing.assert_allclose((roughness < 0.4).mean(), 1 / 3, atol=0.04)
    np.testing.assert_allclose((heard**2).mean(), 4 / 3, atol=0.05)


# BandPass


def test_band_pass_keeps_inside_and_attenuates_outside():
    fs, t = 100, np.arange(4000) / 100
    tones = np.array([0.05, 4, 8, 45])
    X = np.sin(2 * np.pi * tones[:, None] * t)[None]
    out = BandPass(fs, ((2, 16),))(X, 0)
    gain = out[0, :, 1000:-1000].std(axis=1) / X[0, :, 1000:-1000].std(axis=1)
    assert gain[0] < 0.05
    assert gain[3] < 0.2
    assert (gain[1:3] > 0.8).all()
    assert (gain[1:3] < 1.01).all()


def test_band_pass_equals_a_loop_over_samples_and_channels():
    X = signals(9, 3, 200, dtype=np.float64)
    bands = ((1e-6, 20), (5, 24.5))
    filters = [scipy.signal.butter(1, band, "bandpass", fs=50) for band in bands]
    out = BandPass(50, bands)(X, 2)
    pick = np.random.default_rng(2).integers(2, size=9)
    assert set(pick) == {0, 1}
    for i in range(9):
        for j in range(3):
            expected = scipy.signal.lfilter(*filters[pick[i]], X[i, j])
            np.testing.assert_allclose(out[i, j], expected, atol=1e-6)


def test_band_pass_in_single_precision_with_a_very_low_edge():
    X = signals(4, 2, 2000) + 10
    out = BandPass(50, ((1e-6, 20),))(X, 0)
    exact = BandPass(50, ((1e-6, 20),))(X.astype(np.float64), 0)
    np.testing.assert_allclose(out, exact, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(out[..., 100:].mean(), 10, atol=0.2)  # the mean passes


# Rotate3D


@pytest.mark.parametrize(
    "names", [SIX, ("gyro_z", "acc_x", "hr", "gyro_x", "acc_z", "acc_y", "gyro_y")]
)
def test_rotation_is_proper_and_keeps_the_norm(names):
    X = signals(30, len(names), 50, dtype=np.float64)
    triples = find_triples(names)
    out = Rotate3D(triples, max_angle=60)(X, 0)
    assert len(triples) == 2
    found = []
    for triple in triples:
        before, after = X[:, triple], out[:, triple]
        np.testing.assert_allclose(
            np.linalg.norm(after, axis=1), np.linalg.norm(before, axis=1), rtol=1e-10
        )
        R = after @ np.linalg.pinv(before)
        np.testing.assert_allclose(R @ R.swapaxes(1, 2), np.eye(3)[None].repeat(30, 0), atol=1e-9)
        np.testing.assert_allclose(np.linalg.det(R), 1)
        angle = np.rad2deg(np.arccos((np.trace(R, axis1=1, axis2=2) - 1) / 2))
        assert angle.max() <= 60
        assert angle.max() > 45
        assert angle.min() < 15
        found.append(R)
    assert np.allclose(*found)
    if "hr" in names:
        np.testing.assert_array_equal(out[:, 2], X[:, 2])


def test_rotation_equals_a_loop_over_samples():
    X = signals(5, 6, 20, dtype=np.float64)
    out = Rotate3D(TRIPLES, max_angle=90)(X, 6)
    rng = np.random.default_rng(6)
    axis, angle = rng.standard_normal((5, 3)), rng.uniform(-np.pi / 2, np.pi / 2, 5)
    for i in range(5):
        u = axis[i] / np.linalg.norm(axis[i])
        for first in (0, 3):
            for t in range(20):
                v = X[i, first : first + 3, t]
                expected = (
                    v * np.cos(angle[i])
                    + np.cross(u, v) * np.sin(angle[i])
                    + u * (u @ v) * (1 - np.cos(angle[i]))
                )
                np.testing.assert_allclose(out[i, first : first + 3, t], expected, atol=1e-12)


@pytest.mark.parametrize(
    ("names", "triples"),
    [
        (HAR_CHANNELS, ((0, 1, 2), (3, 4, 5), (6, 7, 8))),
        (("AccX", "AccY", "AccZ"), ((0, 1, 2),)),
        (("ax", "ay", "az", "gx", "gy", "gz"), ((0, 1, 2), (3, 4, 5))),
        (("x", "y", "z"), ((0, 1, 2),)),
        (("x1", "y1", "z1", "z2", "y2", "x2"), ((0, 1, 2), (5, 4, 3))),
        (("acc (z)", "acc (y)", "acc (x)"), ((2, 1, 0),)),
        (("X-wrist", "Y-wrist", "Z-wrist"), ((0, 1, 2),)),
        (("left.acc.x", "left.acc.y", "left.acc.z", "right.acc.x"), ((0, 1, 2),)),
        (("Fz", "Cz", "Pz", "Oz"), ()),
        (("I", "II", "aVR", "V1"), ()),
    ],
)
def test_triples_are_found_by_name(names, triples):
    assert find_triples(names) == triples


# Scale, TimeShift


def test_scale_multiplies_by_one_factor():
    X = signals(500, 3, 10, dtype=np.float64)
    ratio = Scale(0.2)(X, 0) / X
    np.testing.assert_allclose(ratio, ratio[:, :1, :1] * np.ones((1, 3, 10)))
    assert ratio.min() >= 0.8
    assert ratio.max() <= 1.2
    assert ratio.min() < 0.81
    assert ratio.max() > 1.19
    np.testing.assert_allclose(ratio.mean(), 1, atol=0.02)


def test_shift_is_a_roll_of_each_sample():
    X = signals(200, 3, 32)
    out = TimeShift(0.125)(X, 1)
    np.testing.assert_array_equal(np.sort(out, axis=2), np.sort(X, axis=2))
    shift = np.random.default_rng(1).integers(-4, 4, size=200, endpoint=True)
    assert set(shift) == set(range(-4, 5))
    for i in range(200):
        np.testing.assert_array_equal(out[i], np.roll(X[i], shift[i], axis=1))


def test_no_shift():
    X = signals(50, 1, 128)
    np.testing.assert_array_equal(TimeShift(0)(X, 0), X)


# Crop, TimeStretch, ChannelMix


def test_crop_at_a_random_place():
    X = signals(300, 2, 22)
    out = Crop(3)(X, 1)
    starts = np.random.default_rng(1).integers(22 - 7 + 1, size=300)
    assert set(starts) == set(range(16))
    for n, start in enumerate(starts):
        for i in range(22):
            np.testing.assert_array_equal(out[n, :, i], X[n, :, start + i % 7])
    np.testing.assert_array_equal(Crop(1)(X, 0), X)


def test_stretch_reads_every_window_at_its_own_rate():
    X = signals(4, 2, 30)
    out = TimeStretch(0.2)(X, 7)
    rates = np.exp(np.random.default_rng(7).uniform(-0.2, 0.2, 4))
    for n, rate in enumerate(rates):
        for c in range(2):
            for t in range(30):
                place = (t * rate) % 29
                at = int(place)
                slow = X[n, c, at] + (place - at) * (X[n, c, at + 1] - X[n, c, at])
                assert out[n, c, t] == pytest.approx(slow, abs=1e-4)
    np.testing.assert_array_equal(TimeStretch(0)(X, 0)[:, :, :-1], X[:, :, :-1])


def slow_mix(X, mixing, sds):
    """Mixed windows, value by value; ``sds`` (n, c)."""
    out = X.copy()
    for n, i, j in np.ndindex(*mixing.shape):
        if sds[n, j] > 0:
            moving = X[n, j] - X[n, j].mean()
            out[n, i] += mixing[n, i, j] * sds[n, i] / sds[n, j] * moving
    return out


def test_channel_mix_adds_a_little_of_the_others():
    X = signals(5, 3, 40, dtype=np.float64) * np.array([[1.0], [20.0], [0.1]]) + 5
    moving = X - X.mean(axis=2, keepdims=True)
    sds = moving.std(axis=2)
    aug = ChannelMix.from_signals(X, 0.2)
    np.testing.assert_allclose(aug.channel_sds, np.sqrt((sds**2).mean(axis=0)), rtol=1e-9)
    sds = np.tile(aug.channel_sds, (5, 1))
    mixing = np.random.default_rng(7).normal(0, 0.2 / 3**0.5, (5, 3, 3))
    out = aug(X, 7)
    np.testing.assert_allclose(out, slow_mix(X, mixing, sds), rtol=1e-9)
    np.testing.assert_allclose(out.mean(axis=2), X.mean(axis=2), rtol=1e-9)
    # In units of its own every channel changes as much, whatever it is measured in.
    unit = np.array([[1e3], [1.0], [1e-5]])
    aug = ChannelMix.from_signals(X * unit, 0.2)
    np.testing.assert_allclose(aug(X * unit, 7), out * unit, rtol=1e-9)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_constant_channels_are_not_mixed(dtype):
    X = signals(4, 3, 41, dtype=np.dtype(dtype))
    X[:, 1] = 0.1
    out = ChannelMix.from_signals(X)(X, 0)
    np.testing.assert_array_equal(out[:, 1], X[:, 1])
    np.testing.assert_allclose(out.mean(axis=2), X.mean(axis=2), atol=1e-6)
    flat = np.full((2, 2, 10), 0.1, dtype)
    np.testing.assert_array_equal(ChannelMix.from_signals(flat)(flat, 0), flat)


@pytest.mark.parametrize("aug", [Crop(3), TimeStretch(), ChannelMix((1,) * 6)])
def test_windows_do_not_depend_on_the_blocks(aug):
    X = signals(9)
    np.testing.assert_array_equal(aug(X, 5, block_values=2 * 6 * 128), aug(X, 5))


def test_statistics_of_channels_need_signals():
    for wrong, message in (
        (signals()[:0], "no window"),
        (signals()[0], "2 dimensions"),
        (np.full((2, 2, 9), np.nan), "NaN"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            ChannelMix.from_signals(wrong)


# Compose, OneOf, presets


def test_compose_applies_in_sequence():
    X = signals()
    steps = (Jitter(0.1), Scale(0.5), TimeShift(0.05))
    rng = np.random.default_rng(9)
    expected = X
    for step in steps:
        expected = step(expected, rng)
    np.testing.assert_array_equal(Compose(steps)(X, 9), expected)
    np.testing.assert_array_equal(Compose()(X, 0), X)


@pytest.mark.parametrize(
    ("dataset", "size", "fs", "kinds"),
    [
        ("har", (9, 128), 50, [Jitter, BandPass, Rotate3D]),
        ("sleep-edf", (7, 3000), 100, [Jitter, BandPass]),
        ("ptb-xl", (12, 5000), 500, [Jitter, BandPass]),
    ],
)
def test_paper_presets(dataset, size, fs, kinds):
    aug = paper(dataset)
    assert [type(step) for step in aug.steps] == kinds
    assert aug.steps[1].fs == fs
    assert len(aug.steps[1].bands) == 2
    assert Augmentation.from_config(aug.to_config()) == aug
    X = signals(3, *size)
    out = aug(X, 0)
    assert out.shape == X.shape
    assert np.isfinite(out).all()
    assert not np.allclose(out, X)


def test_paper_presets_for_other_recordings():
    aug = paper("ptb-xl", fs=100)
    assert aug.steps[1].bands == ((1e-3, 30), (10, 49))
    assert aug(signals(2, 12, 1000), 0).shape == (2, 12, 1000)
    assert paper("har", channels=SIX)(signals(), 0).shape == (7, 6, 128)
    for unknown in ("mnist", ["har"]):
        with pytest.raises(InvalidInputError, match="har, ptb-xl, sleep-edf"):
            paper(unknown)
    with pytest.raises(InvalidInputError, match="fs is -1"):
        paper("har", fs=-1)
    with pytest.raises(InvalidInputError, match="channel 8"):
        paper("har")(signals(), 0)


def test_gentle_is_gentle():
    X = signals(300, 2, 128)
    change = gentle()(X, 0) - X
    assert gentle() == Compose((Jitter(0.05), Scale(0.1), TimeShift(1 / 16)))
    assert np.isfinite(change).all()


@pytest.mark.parametrize("n_times", [1, 2, 3, 4, 5, 64])
@pytest.mark.parametrize("n_channels", [1, 2, 6])
def test_standard_has_the_steps_that_channels_and_length_allow(n_channels, n_times):
    X = np.random.default_rng(0).normal(size=(12, n_channels, n_times))
    found = standard(X)
    kinds = [Crop, TimeStretch] * (n_times >= 4) + [ChannelMix] * (n_channels > 1)
    assert [type(step) for step in found.steps] == [*kinds, Jitter, Scale]
    view = found(X, 0)
    assert view.shape == X.shape
    assert np.isfinite(view).all()
    for step in found.steps:  # each can be used by itself
        assert step(X, 1).shape == X.shape
    assert Augmentation.from_config(json.loads(json.dumps(found.to_config()))) == found


def test_standard_is_what_it_says():
    X = np.random.default_rng(0).normal(size=(50, 3, 64)) * [[[1.0], [10.0], [0.1]]]
    crop, stretch, mix, jitter, scale = standard(X).steps
    assert (crop, stretch) == (Crop(2), TimeStretch(0.1))
    assert (jitter, scale) == (Jitter(0.05), Scale(0.1))
    assert mix == ChannelMix.from_signals(X, 0.3)
    np.testing.assert_allclose(mix.channel_sds, [1, 10, 0.1], rtol=0.1)


def test_standard_of_one_channel_mixes_nothing():
    X = np.random.default_rng(0).normal(size=(9, 1, 64))
    assert standard(X) == Compose((Crop(2), TimeStretch(0.1), Jitter(0.05), Scale(0.1)))
    assert standard(X) == standard(7 * X)  # of other channels alone the size would matter


def test_standard_takes_lists_and_refuses_other_shapes():
    X = np.random.default_rng(0).normal(size=(5, 2, 16))
    assert standard(X.tolist()) == standard(X)
    with pytest.raises(InvalidInputError):
        standard(X[0])


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_standard_keeps_dtype_and_constant_channels(dtype):
    X = np.random.default_rng(0).normal(size=(9, 3, 32)).astype(dtype)
    X[:, 1] = 0
    view = standard(X)(X, 0)
    assert view.dtype == X.dtype
    np.testing.assert_array_equal(view[:, 1], 0)
    assert not np.array_equal(view[:, 0], X[:, 0])


@pytest.mark.data
def test_views_of_real_recordings_are_near_them():
    path = Path(os.environ.get("TENSORCONTRAST_DATA", "")) / "har.npz"
    if not path.is_file():
        pytest.skip("TENSORCONTRAST_DATA does not name a folder with har.npz")
    with np.load(path, allow_pickle=False) as file:
        X, names = file["X"][:1000], tuple(str(name) for name in file["channels"])
    assert names == HAR_CHANNELS
    level = np.linalg.norm(X[:, 6:], axis=1)
    turned = Rotate3D(find_triples(names))(X, 0)
    np.testing.assert_allclose(np.linalg.norm(turned[:, 6:], axis=1), level, rtol=1e-4)
    out = gentle()(X, 0)
    np.testing.assert_allclose(out.mean(axis=2), X.mean(axis=2), atol=0.2)


# Bad fields and configurations


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Jitter(-1), "level"),
        (lambda: Jitter(np.nan), "level"),
        (lambda: Jitter(np.inf), "level"),
        (lambda: Jitter(True), "level"),
        (lambda: Jitter(kind="middle"), "kind"),
        (lambda: Jitter(relative="max"), "relative"),
        (lambda: Jitter(distribution="cauchy"), "distribution"),
        (lambda: BandPass(0, ((1, 2),)), "fs"),
        (lambda: BandPass(50, ((1, 25),)), "does not fit"),
        (lambda: BandPass(50, ((0, 20),)), "does not fit"),
        (lambda: BandPass(50, ((20, 5),)), "does not fit"),
        (lambda: BandPass(50, (1, 20)), "pairs"),
        (lambda: BandPass(50, ()), "pairs"),
        (lambda: Rotate3D(find_triples(("EEG", "ECG"))), "no triple"),
        (lambda: Rotate3D("xyz"), "triples"),
        (lambda: find_triples(("acc_x", "acc_y", "acc_x")), "channels 0 and 2"),
        (lambda: find_triples((1, 2, 3)), "names"),
        (lambda: Rotate3D(TRIPLES, max_angle=200), "max_angle"),
        (lambda: Rotate3D(((0, 1),)), "channel numbers"),
        (lambda: Rotate3D(((0, 1, 1),)), "twice"),
        (lambda: Scale(1), "spread"),
        (lambda: TimeShift(1), "max_fraction"),
        (lambda: Crop(0), "n_parts"),
        (lambda: Crop(2.0), "n_parts"),
        (lambda: TimeStretch(-0.1), "max_log_rate"),
        (lambda: ChannelMix((1,), -1), "strength"),
        (lambda: ChannelMix((1,), float("nan")), "strength"),
        (lambda: ChannelMix((1, -1)), "channel_sds"),
        (lambda: ChannelMix(2), "channel_sds"),
        (lambda: Compose(Jitter()), "steps"),
        (lambda: Compose((Jitter, Scale)), "steps"),
    ],
)
def test_bad_fields(make, message):
    with pytest.raises(InvalidInputError, match=message):
        make()


@pytest.mark.parametrize(
    ("aug", "message"),
    [
        (Rotate3D(((4, 5, 6),)), "channel 6"),
        (Crop(129), "129 parts"),
        (ChannelMix((1, 2)), "2 standard deviations"),
        (Compose((Scale(), Crop(129))), "129 parts"),
    ],
)
def test_fields_that_do_not_fit_the_signals(aug, message):
    with pytest.raises(InvalidInputError, match=message):
        aug(signals(), 0)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("Scale", "type"),
        ({}, "type"),
        ({"type": 3}, "type"),
        ({"type": "os.system"}, "os.system"),
        ({"type": "Augmentation"}, "unknown"),
        ({"type": "Scale", "amount": 3}, "amount"),
        ({"type": "BandPass", "fs": 50}, "BandPass"),
        ({"type": "Scale", "spread": "big"}, "spread"),
        ({"type": "Compose", "steps": [{"type": "Nothing"}]}, "Nothing"),
        ({"type": "Compose", "steps": ["Scale"]}, "steps"),
        ({"type": "Jitter", "level": None}, "level"),
        ({"type": "BandPass", "fs": 50, "bands": [["a", "b"]]}, "bands"),
        ({"type": "Rotate3D", "triples": [[0, 1, "z"]]}, "channel numbers"),
        ({"type": "Rotate3D", "triples": 3}, "triples"),
    ],
)
def test_bad_configurations(config, message):
    with pytest.raises(InvalidInputError, match=message):
        Augmentation.from_config(config)


def test_values_too_large_for_the_precision_are_named():
    X = signals()
    X[3, 2, 1] = 1e30
    with pytest.raises(InvalidInputError, match=r"X\[3\] channel 2 reaches 1e\+30"):
        Jitter()(X, 0)
    assert np.isfinite(Jitter()(X.astype(np.float64), 0)).all()


def test_numpy_values_become_plain():
    aug = Compose([Scale(np.float32(0.5)), Crop(np.int64(3)), Rotate3D(np.array(TRIPLES))])
    assert json.loads(json.dumps(aug.to_config())) == aug.to_config()
    assert isinstance(aug.steps, tuple)
    assert Augmentation.from_config(aug.to_config()) == aug
