"""What a feature is, in a sentence that its numbers bear out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tensorcontrast.utils.names import visible

if TYPE_CHECKING:
    from tensorcontrast.explain.feature import FeatureExplanation

__all__ = ["sentence"]

#: Correlation from which a feature is said to follow the strength of a band.
MIN_CORRELATION = 0.3
#: Share of half a window, or of one quantile, from which it is named.
MOSTLY = 0.65
#: Share of the variance that the drawn blocks must hold, or else the rest is named.
MIN_COVERED = 0.9


def sentence(found: FeatureExplanation) -> str:
    """Return a sentence: when the feature is high, and what its variance is made of."""
    if not found.sd > 0:
        return "does not vary."
    parts = [f"{_what(found)}.", _blocks(found)]
    if found.covered < MIN_COVERED:
        parts.append(f"{100 * (1 - found.covered):.0f} % of its variance is not drawn here.")
    return " ".join(parts)


def _what(found: FeatureExplanation) -> str:
    from tensorcontrast.explain.feature import main_channels

    main = [found.channels[i] for i in main_channels(found.channel_share)]
    where = f"in {_channels(main)} {_when(found)}"
    strength = found.strength
    if strength is None:
        rising, falling = (np.maximum(s * found.frequency_gain, 0.0) for s in (1, -1))
        total = float(rising.sum() + falling.sum())
        band = _band(found, None)
        if total > 0 and abs(float(rising.sum() - falling.sum())) >= 0.5 * total:
            side = "strong" if rising.sum() > falling.sum() else "weak"
            return f"high when {band} {where} is {side}"
        return f"follows {band} {where}, some of it raising and some lowering it"
    r = float(strength["correlation"])
    if abs(r) >= MIN_CORRELATION:
        band, measured = _band(found, strength["band"]), f"(correlation {_signed(r)})"
        if strength["against_channels"] is not None:
            more, less = strength["channels"], strength["against_channels"]
            if r < 0:
                more, less = less, more
            return (
                f"high when {band} is stronger in {_channels(more)} than in {_channels(less)} "
                f"{_when(found)} {measured}"
            )
        if strength["against_band"] is not None:
            other = _band(found, strength["against_band"])
            more, less = (band, other) if r > 0 else (other, band)
            return f"high when {more} {where} is strong against {less} {measured}"
        return f"high when {band} {where} is {'strong' if r > 0 else 'weak'} {measured}"
    band = _band(found, None)
    if found.form_share > 0.5:
        return (
            f"follows the form of waves at {band} {where}, such as which way up they are, more "
            f"than their strength (correlation with that {_signed(r)})"
        )
    return (
        f"follows {band} {where}; no strength of a single band tells its value (correlation "
        f"{_signed(r)})"
    )


def _channels(channels: Sequence[str]) -> str:
    names = [_name(channel) for channel in channels]
    if len(names) > 3:
        return f"{len(names)} channels ({names[0]} first)"
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _name(text: str) -> str:
    shown = visible(text)
    return shown if len(shown) <= 24 else shown[:23] + "…"


def _band(found: FeatureExplanation, band: tuple[float, float] | None) -> str:
    from tensorcontrast.explain.feature import main_band

    low, high = band or main_band(found.frequencies, found.frequency_share)
    unit = found.frequency_unit
    if high <= low:
        return f"{low:.2g} {unit}" if low > 0 else f"below {found.frequencies[1]:.2g} {unit}"
    return f"{low:.2g}–{high:.2g} {unit}"


def _when(found: FeatureExplanation) -> str:
    """Say which part of the window, or which of its moments, holds most of the variance."""
    share = found.time_share
    if share is not None and len(share) >= 4 and share.sum() > 0:
        part = share / share.sum()
        count = len(part)
        if part[: count // 2].sum() >= MOSTLY:
            return "during the first half"
        if part[count - count // 2 :].sum() >= MOSTLY:
            return "during the second half"
        if part[count // 4 : count - count // 4].sum() >= MOSTLY + 0.1:
            return "in the middle of the window"
    if found.blocks.get("spectrogram", 0.0) >= 0.5 and len(found.panel_share) > 1:
        panel = found.panel_share / (found.panel_share.sum() or 1.0)
        if found.by_quantile and panel[-1] >= MOSTLY:
            return "at its strongest moments"
        if found.by_quantile and panel[0] >= MOSTLY:
            return "at its weakest moments"
    return "anywhere in the window" if share is not None or found.by_quantile else "in the window"


def _blocks(found: FeatureExplanation) -> str:
    """Name the share of each block; a block that takes back what others add is said to cancel."""
    order = sorted(found.blocks.items(), key=lambda item: -item[1])
    shares = [f"{name} {_percent(value)}" for name, value in order]
    if len(shares) == 1:
        return f"All of its variance is of {order[0][0]}."
    text = f"Of its variance: {', '.join(shares)}"
    if order[-1][1] < -0.005:
        text += f"; {order[-1][0]} cancels part of the rest"
    return f"{text}."


def _percent(value: float) -> str:
    return f"{100 * value:.0f} %".replace("-", "−")


def _signed(value: float) -> str:
    return f"{value:.2f}".replace("-", "−")
