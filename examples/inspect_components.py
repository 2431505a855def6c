"""Which channels, frequencies and times each of the strongest components speaks for.

A component is a pattern over channels times a spectrum times a course in time, and the feature
says how strongly a window holds it. The components are learned without labels; these are used
only at the end, to say in which class a component is strong.

    python examples/inspect_components.py

Needs ``pip install 'tensorcontrast[data]'`` for the recordings; nothing is downloaded.
"""

import numpy as np

from tensorcontrast import PLC, ContrastiveFeatures, SpectrogramTensor
from tensorcontrast.datasets import load_watch


def bars(values: np.ndarray) -> str:
    """Draw sizes as a row of small bars; the sign is left out."""
    size = np.abs(values) / np.abs(values).max()
    return "".join("▁▂▃▄▅▆▇█"[round(7 * s)] for s in size)


def main(n_components: int = 6) -> None:
    rec = load_watch()
    model = ContrastiveFeatures(
        tensorize=SpectrogramTensor(fs=rec.fs, n_fft=100, hop=10),  # rows of 0.5 Hz
        decompose=PLC(rank=16, n_clusters=rec.n_classes),
        random_state=0,
    ).fit(rec)
    channel, frequency, time = model.factors_  # (channels, r), (frequencies, r), (frames, r)
    hertz, seconds = model.tensorize_.frequencies_, model.tensorize_.times_
    W = model.transform(rec)
    low = (hertz <= 8) & (model.tensorize_.row_kinds_ == "magnitude")

    # Components come sorted by weight, the root mean square of their feature.
    for r in range(min(n_components, W.shape[1])):
        loudest = np.argsort(-np.abs(channel[:, r]))[:3]
        names = ", ".join(f"{rec.channels[c]} {channel[c, r]:+.2f}" for c in loudest)
        peak = hertz[int(np.argmax(np.abs(frequency[:, r])))]
        late = seconds[int(np.argmax(np.abs(time[:, r])))]
        mean = [W[rec.y == c, r].mean() for c in range(rec.n_classes)]
        high, least = rec.classes[int(np.argmax(mean))], rec.classes[int(np.argmin(mean))]
        print(f"component {r}, weight {model.decompose_.weights_[r]:.2f}")
        print(f"  channels     {names}")
        print(f"  frequencies  0 {bars(frequency[low, r])} 8 Hz, most at {peak:.1f} Hz")
        print(f"  times        {bars(time[:, r])}, most at {late:.1f} s")
        print(f"  classes      highest in {high!r}, lowest in {least!r}")


if __name__ == "__main__":
    main()
