"""What a feature is, in a sentence that its numbers bear out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.utils.names import visible

if TYPE_CHECKING:
    from tensorcontrast.explain.feature import FeatureExplanation
    from tensorcontrast.explain.strength import Strength, Term

Array = NDArray[Any]

__all__ = ["sentence"]

#: Correlation from which a feature is said to follow an amplitude.
MIN_CORRELATION = 0.3
#: Share of half a window, or of one quantile, from which it is named.
MOSTLY = 0.65


def sentence(found: FeatureExplanation) -> str:
    """Return a sentence: when the feature is high, and what its variance is made of."""
    if not found.sd > 0:
        return "does not vary."
    return f"{_what(found)}. {_blocks(found)}"


def _what(found: FeatureExplanation) -> str:
    main = [found.channels[i] for i in main_channels(found.channel_share)]
    where = f"in {_channels(main)} {_when(found)}"
    strength, band = found.strength, _band(found, None)
    if strength is None:
        rising, falling = (np.maximum(s * found.frequency_gain, 0.0) for s in (1, -1))
        total = float(rising.sum() + falling.sum())
        if total > 0 and abs(float(rising.sum() - falling.sum())) >= 0.5 * total:
            side = "strong" if rising.sum() > falling.sum() else "weak"
            return f"high when {band} {where} is {side}"
        return f"follows {band} {where}, some of it raising and some lowering it"
    r = strength.correlation
    if abs(r) >= MIN_CORRELATION:
        shown = r if strength.against is None else abs(r)  # the sentence has the larger one first
        return f"high when {_strong(found, strength)} (correlation {_signed(shown)})"
    if found.form_share > 0.5:
        return (
            f"follows the form of waves at {band} {where}, such as which way up they are; no "
            f"amplitude tells its value (best correlation {_signed(r)})"
        )
    return f"follows {band} {where}; no amplitude tells its value (best correlation {_signed(r)})"


def _strong(found: FeatureExplanation, strength: Strength) -> str:
    """Say what is strong or weak where the feature is high."""
    more, less = strength.term, strength.against
    rises = strength.correlation > 0
    if less is None:
        if more.is_offset:
            return f"the mean of {_channels(more.channels)} is {'far from' if rises else 'near'} 0"
        return f"{_term(found, more)} is {'strong' if rises else 'weak'}"
    if not rises:
        more, less = less, more
    if more.is_offset and less.is_offset:
        return (
            f"the mean of {_channels(more.channels)} is far from 0 against that of "
            f"{_channels(less.channels)}"
        )
    return f"{_term(found, more)} is strong against {_term(found, less, more)}"


def _term(found: FeatureExplanation, term: Term, other: Term | None = None) -> str:
    """Name an amplitude; what it has in common with another one is not said again."""
    if term.is_offset:
        return f"the offset of {_channels(term.channels)} from 0"
    part = "" if term.part == "window" else f" during the {term.part}"
    band = _band(found, term.band)
    if other is None or other.is_offset:
        return f"{band} in {_channels(term.channels)}{part}"
    same_place = set(other.channels) == set(term.channels)
    if same_place and other.band == term.band:
        return f"the {term.part}" if part else "the whole window"
    if same_place:
        return f"{band}{part or (' in the whole window' if other.part != 'window' else '')}"
    if other.band == term.band:
        return f"that in {_channels(term.channels)}{part}"
    return f"{band} in {_channels(term.channels)}{part}"


def _channels(channels: Sequence[str]) -> str:
    names = [_name(channel) for channel in channels]
    if len(names) > 3:
        return f"{len(names)} channels ({names[0]} first)"
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _name(text: str) -> str:
    shown = visible(text)
    return shown if len(shown) <= 24 else shown[:23] + "…"


def _band(found: FeatureExplanation, band: tuple[float, float] | None) -> str:
    low, high = band or main_band(found.frequencies, found.frequency_share)
    unit = found.frequency_unit
    if high <= low:
        return (
            f"{_short(low)} {unit}" if low > 0 else f"below {_short(found.frequencies[1])} {unit}"
        )
    return f"{_short(low)}–{_short(high)} {unit}"


def _short(value: float) -> str:
    """Return two digits, or all of them before the point: 0.78, 7, 180."""
    return f"{value:.0f}" if value >= 9.95 else f"{value:.2g}"


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


# --------------------------------------------------------------------------- what is named


def main_channels(shares: Array, most: float = 0.8) -> NDArray[np.intp]:
    """Channels that hold this part of the positive shares, largest first."""
    positive = np.maximum(shares, 0.0)
    if not positive.any():
        return np.arange(len(shares))
    order = np.argsort(-positive, kind="stable")
    reached = np.cumsum(positive[order]) / positive.sum()
    return np.asarray(order[: int(np.searchsorted(reached, most) + 1)])


def main_band(frequencies: Array, shares: Array, outside: float = 0.1) -> tuple[float, float]:
    """Frequencies between which all but 10 % at each end of the positive shares are."""
    positive = np.maximum(shares, 0.0)
    if not positive.any():
        return float(frequencies[0]), float(frequencies[-1])
    reached = np.cumsum(positive) / positive.sum()
    low, high = (int(np.searchsorted(reached, p)) for p in (outside, 1 - outside))
    return float(frequencies[low]), float(frequencies[min(high, len(frequencies) - 1)])
