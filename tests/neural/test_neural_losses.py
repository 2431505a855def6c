"""NT-Xent and BYOL against slow loops written from their papers, and their gradients.

No public library is asked: lightly is not among the dependencies, so the loops are the oracle.
"""

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra 'neural'")

from tensorcontrast.neural.networks import byol, nt_xent  # noqa: E402


def draw(n, d, seed):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(n, d)))


def cosine(u, v):
    return sum(a * b for a, b in zip(u, v, strict=True)) / (
        math.sqrt(sum(a * a for a in u)) * math.sqrt(sum(b * b for b in v))
    )


def slow_nt_xent(a, b, temperature):
    """Equation 1 of the SimCLR paper, pair by pair: ℓ(i, j) and ℓ(j, i) of all positive pairs."""
    rows = [*a.tolist(), *b.tolist()]
    n = len(a)

    def pair(i, j):
        others = [math.exp(cosine(rows[i], rows[k]) / temperature) for k in range(2 * n) if k != i]
        return -math.log(math.exp(cosine(rows[i], rows[j]) / temperature) / sum(others))

    return sum(pair(i, i + n) + pair(i + n, i) for i in range(n)) / (2 * n)


@pytest.mark.parametrize("temperature", [0.07, 0.5, 2.0])
@pytest.mark.parametrize(("n", "d"), [(2, 3), (7, 4), (12, 1)])
def test_nt_xent_is_the_slow_loop(n, d, temperature):
    a, b = draw(n, d, 0), draw(n, d, 1)
    assert float(nt_xent(a, b, temperature)) == pytest.approx(
        slow_nt_xent(a, b, temperature), rel=1e-10
    )


def test_nt_xent_of_a_known_case():
    """Two samples at a right angle, both views equal: every row has one 1 and two zeros."""
    eye = torch.eye(2, dtype=torch.float64)
    expected = -math.log(math.exp(2.0) / (math.exp(2.0) + 2.0))
    assert float(nt_xent(eye, eye, 0.5)) == pytest.approx(expected)


def test_nt_xent_does_not_see_lengths_or_the_order_of_views():
    a, b = draw(6, 5, 2), draw(6, 5, 3)
    value = float(nt_xent(a, b, 0.3))
    assert float(nt_xent(7 * a, 0.1 * b, 0.3)) == pytest.approx(value)
    assert float(nt_xent(b, a, 0.3)) == pytest.approx(value)
    assert float(nt_xent(a, b.flip(0), 0.3)) != pytest.approx(value)


def test_nt_xent_stays_finite_at_low_temperature_in_single_precision():
    a = draw(8, 4, 4).float()
    assert torch.isfinite(nt_xent(a, a, 1e-3))


def slow_byol(prediction, target):
    total = 0.0
    for p, z in zip(prediction.tolist(), target.tolist(), strict=True):
        p_norm, z_norm = (math.sqrt(sum(v * v for v in row)) for row in (p, z))
        total += sum((u / p_norm - v / z_norm) ** 2 for u, v in zip(p, z, strict=True))
    return total / len(prediction)


@pytest.mark.parametrize(("n", "d"), [(1, 3), (9, 5)])
def test_byol_is_the_slow_loop(n, d):
    p, z = draw(n, d, 5), draw(n, d, 6)
    assert float(byol(p, z)) == pytest.approx(slow_byol(p, z), rel=1e-12)


def test_byol_is_zero_for_equal_directions_and_four_for_opposite_ones():
    p = draw(5, 4, 7)
    assert float(byol(p, 3 * p)) == pytest.approx(0.0, abs=1e-12)
    assert float(byol(p, -p)) == pytest.approx(4.0)


def test_gradients():
    a, b = (draw(5, 3, seed).requires_grad_() for seed in (8, 9))
    assert torch.autograd.gradcheck(lambda u, v: nt_xent(u, v, 0.4), (a, b))
    fixed = draw(5, 3, 10)
    assert torch.autograd.gradcheck(lambda u: byol(u, fixed), (a,))


def test_no_gradient_reaches_the_target_of_byol():
    p, z = (draw(5, 3, seed).requires_grad_() for seed in (11, 12))
    byol(p, z).backward()
    assert p.grad is not None
    assert float(p.grad.abs().sum()) > 0
    assert z.grad is None
