"""Which channels, frequencies and quantiles over time each of the strongest components has.

A component is a pattern over channels times a spectrum times a profile over the frames of a window,
from the weakest to the strongest. The feature says how strongly a window holds it. The components
are learned without labels; these are used only at the end, to say in which class a component is
strong.

    python examples/inspect_components.py

Needs ``pip install 'tensorcontrast[data]'`` for the recordings; nothing is downloaded.
"""

import numpy as np

from tensorcontrast import PLC, ContrastiveFeatures, SpectrogramTensor
from tensorcontrast.datasets import load_watch
from tensorcontrast.report import describe_components


def bars(values: np.ndarray) -> str:
    """Draw sizes as a row of small bars; the sign is left out."""
    size = np.abs(values) / np.abs(values).max()
    return "".join("▁▂▃▄▅▆▇█"[round(7 * s)] for s in size)


def main(n_components: int = 6) -> None:
    rec = load_watch()
    model = ContrastiveFeatures(
        tensorize=SpectrogramTensor(fs=rec.fs, n_fft=100, hop=10, n_quantiles=4),  # rows of 0.5 Hz
        decompose=PLC(rank=16, n_clusters=rec.n_classes),
        random_state=0,
    ).fit(rec)
    W = model.transform(rec)

    # The three factors of each component with their axes, the heaviest component first.
    for c in describe_components(model)[:n_components]:
        loudest = np.argsort(-np.abs(c.channel_weights))[:3]
        names = ", ".join(f"{c.channels[k]} {c.channel_weights[k]:+.2f}" for k in loudest)
        low = c.frequencies <= 8
        peak = c.frequencies[np.argmax(np.abs(c.frequency_profile))]
        at = c.times[np.argmax(np.abs(c.time_profile))]
        # Quantiles over time go from the weakest frames to the strongest and have no time.
        axis, unit = ("quantiles", "%") if c.by_strength else ("time", "s")
        mean = [W[rec.y == k, c.index].mean() for k in range(rec.n_classes)]
        high, least = rec.classes[int(np.argmax(mean))], rec.classes[int(np.argmin(mean))]
        print(f"component {c.index}, weight {model.decompose_.weights_[c.index]:.2f}")
        print(f"  channels     {names}")
        print(f"  frequencies  0 {bars(c.frequency_profile[low])} 8 Hz, most at {peak:.1f} Hz")
        print(f"  {axis:11s}  {bars(c.time_profile)}, most at {at:.3g} {unit}")
        print(f"  classes      highest in {high!r}, lowest in {least!r}")


if __name__ == "__main__":
    main()
