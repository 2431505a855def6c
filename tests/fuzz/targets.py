"""What is read: for each format whole little files, forgeries, and the reader."""

import os
import random
import warnings
from dataclasses import dataclass
from importlib.util import find_spec

import forge_arrays as arrays
import forge_models as models
import forge_signals as signals
import forge_tables as tables
import numpy as np
from mutate import Seed, damage

from tensorcontrast import Recordings, load_model
from tensorcontrast.errors import TensorContrastError


@dataclass(frozen=True)
class Target:
    """A format: its whole files, how they are read, and forgeries beyond plain damage, if any."""

    name: str
    seeds: object
    forge: object
    checksummed: bool = False
    model: bool = False
    #: Files in a run of all formats, as a share of those of the others.
    share: float = 1.0
    #: A package without which there is nothing to read.
    needs: str | None = None

    @property
    def there(self) -> bool:
        return self.needs is None or find_spec(self.needs) is not None

    def read(self, path):
        return load_model(path) if self.model else Recordings.read(path)

    def case(self, rng: random.Random, seeds: list[Seed]) -> tuple[Seed, Seed, bool]:
        """The seed, the mutated files, and whether checksums were made to agree again."""
        seed = rng.choice(seeds)
        if self.forge is None or rng.random() < 0.5:
            name = rng.choice(sorted(seed.files))
            files = {**seed.files, name: damage(rng, seed.files[name])}
            return seed, Seed(files, seed.entry), False
        return seed, self.forge(rng, seed), True


TARGETS = {
    target.name: target
    for target in (
        Target("npz", arrays.npz_seeds, arrays.forge_zip),
        Target("recordings", arrays.recordings_seeds, arrays.forge_zip, checksummed=True),
        Target("csv", tables.csv_seeds, tables.forge_csv),
        Target("parquet", tables.parquet_seeds, tables.forge_parquet),
        Target("edf", signals.edf_seeds, signals.forge_edf),
        Target("wfdb", signals.wfdb_seeds, signals.forge_wfdb),
        Target("ts", signals.ts_seeds, signals.forge_ts),
        Target("model", models.model_seeds, None, checksummed=True, model=True),
        Target(
            "neural",
            models.neural_seeds,
            None,
            checksummed=True,
            model=True,
            share=0.125,
            needs="torch",
        ),
    )
}


class Planted(Target):
    """Faults that the fuzzer must find; only read when asked for."""

    faults = ("memory", "hang", "error", "warning", "crash", "invalid", "nameless")

    def case(self, rng, seeds):
        fault = Seed({"fault": rng.choice(self.faults).encode()}, "fault")
        return seeds[0], fault, True

    def read(self, path):
        fault = path.read_text()
        if fault == "memory":
            np.ones(200_000_000)
        while fault == "hang":
            pass
        if fault == "error":
            raise ValueError("planted")
        if fault == "warning":
            warnings.warn("planted", DeprecationWarning, stacklevel=1)
        if fault == "crash":
            os.abort()
        if fault == "nameless":
            raise TensorContrastError("planted")
        rec = arrays.recordings()
        if fault == "invalid":
            rec.X[0, 0, 0] = np.nan
        return rec


TARGETS["planted"] = Planted("planted", lambda: [Seed({"fault": b"none"}, "fault")], None)
