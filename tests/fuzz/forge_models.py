"""Model files, with checksums that agree again after the forgery."""

import copy
import hashlib
import json
import struct
import tempfile
import warnings
from pathlib import Path

import numpy as np
from mutate import Seed, damage

from tensorcontrast import CPD, ContrastiveFeatures, SpectrogramTensor
from tensorcontrast.io.model_files import save_model

MODEL_X = np.random.default_rng(3).standard_normal((12, 3, 32)).astype(np.float32)


def model_seeds() -> list[Seed]:
    out = []
    spectrogram = SpectrogramTensor(fs=8.0, n_fft=8, hop=4).fit(MODEL_X)
    cpd = CPD(rank=2, random_state=0, max_iter=3)
    features = ContrastiveFeatures(fs=8.0, tensorize=SpectrogramTensor(n_fft=8), decompose=cpd)
    with tempfile.TemporaryDirectory() as folder:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            models = [CPD(rank=2, random_state=0, max_iter=3).fit(MODEL_X), spectrogram]
            models.append(features.fit(MODEL_X))
        for model in models:
            path = Path(folder) / "m.tcm"
            save_model(model, path)
            out.append(Seed({"m.tcm": path.read_bytes()}, "m.tcm"))
    return out


def neural_seeds() -> list[Seed]:
    """Networks as small as they come: what is learned is in many arrays of many names."""
    from tensorcontrast.neural import BYOL, DeepTensor, SimCLR

    quick = {"max_iter": 1, "batch_size": 6, "tol": 0.0, "random_state": 0}
    models = [
        SimCLR(n_features=2, projection=2, **quick),
        BYOL(n_features=2, projection=2, hidden=2, **quick),
        DeepTensor(rank=2, hidden=3, **quick),
    ]
    out = []
    with tempfile.TemporaryDirectory() as folder:
        for model in models:
            path = Path(folder) / "m.tcm"
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model.fit(MODEL_X)
            save_model(model, path)
            out.append(Seed({"m.tcm": path.read_bytes()}, "m.tcm"))
    return out


def forge_model(rng, seed: Seed) -> Seed:
    raw = seed.files[seed.entry]
    magic, version, zero, _, length = struct.unpack_from("<8sIIQQ", raw)
    header = json.loads(raw[32 : 32 + length])
    start = -(-(32 + length) // 64) * 64
    body = bytearray(raw[start:-32])
    for _ in range(rng.choice((1, 1, 2))):
        if rng.random() < 0.7:
            _forge_json(rng, header)
        elif body:
            at = rng.randrange(len(body))
            body[at : at + 4] = rng.randbytes(min(4, len(body) - at))
    text = json.dumps(header).encode()
    if rng.random() < 0.1:
        text = damage(rng, text)
    if rng.random() < 0.05:
        version = rng.choice((0, 2, 2**32 - 1))
    start = -(-(32 + len(text)) // 64) * 64
    total = start + len(body) + 32
    out = struct.pack("<8sIIQQ", magic, version, zero, total, len(text)) + text
    out += bytes(start - len(out)) + bytes(body)
    return Seed({seed.entry: out + hashlib.sha256(out).digest()}, seed.entry)


_VALUES = [None, True, -1, 0, 1, 2, 3, 10**6, 10**18, 1e308, 0.5, "x", "", "auto", [], {},
           {"float": "nan"},
           {"float": "inf"}, {"list": []}, {"tuple": [1, 2]}, {"array": "center_"},
           {"array": "none"},
           {"dict": {}}, {"strings": ["a"]}, {"augment": {"kind": "Jitter"}}, {"estimator": {}},
           {"tensor_noise": {"scale": -1}}, "<f8", "|b1", "|O", [10**9, 10**9], [2, 3]]  # fmt: skip


def _forge_json(rng, header) -> None:
    """Another value, or none, somewhere in the header."""
    place = header
    while True:
        keys = list(place) if isinstance(place, dict) else range(len(place))
        if not len(keys):
            return
        key = rng.choice(list(keys))
        child = place[key]
        if isinstance(child, dict | list) and child and rng.random() < 0.85:
            place = child
            continue
        if rng.random() < 0.15:
            del place[key]
        elif rng.random() < 0.15 and isinstance(place, list):
            place.extend([copy.deepcopy(child)] * rng.choice((1, 200)))
        else:
            place[key] = copy.deepcopy(rng.choice(_VALUES))
        return
