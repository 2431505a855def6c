"""Networks, batches and the training loop on their own."""

import itertools
import math

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra 'neural'")

from tensorcontrast.cp import kernels  # noqa: E402
from tensorcontrast.errors import NumericalError  # noqa: E402
from tensorcontrast.neural import networks, training  # noqa: E402
from tensorcontrast.neural.byol import momentum_at, move_target  # noqa: E402
from tensorcontrast.neural.networks import ResidualEncoder  # noqa: E402
from tensorcontrast.solvers.convergence import Monitor  # noqa: E402


@pytest.mark.parametrize(
    "dims", [(1,), (17,), (3, 1), (3, 20), (1, 1, 1), (9, 33, 9), (2, 3, 4, 5), (2, 2, 3, 4, 5)]
)
def test_the_encoder_takes_any_tensor(dims):
    encoder = ResidualEncoder(dims, 7)
    x = torch.randn(4, *dims)
    out = encoder(x)
    assert out.shape == (4, 7)
    torch.testing.assert_close(encoder(x.flatten(1)), out)
    out.sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in encoder.parameters())


def test_the_encoder_tells_a_low_from_a_high_frequency():
    """Pooling over all places would not: a line at row 4 and at row 24 would look the same."""
    encoder = ResidualEncoder((1, 32, 8), 16).eval()
    x = torch.zeros(2, 1, 32, 8)
    x[0, 0, 4], x[1, 0, 24] = 1.0, 1.0
    with torch.no_grad():
        low, high = encoder(x)
    assert float((low - high).norm()) > 0.01 * float(low.norm())


def test_weights_go_to_arrays_and_back():
    encoder = ResidualEncoder((2, 9, 8), 5)
    encoder(torch.randn(6, 2, 9, 8))  # moves the running means
    encoder.eval()
    weights = training.to_arrays(encoder)
    assert all(type(w) is np.ndarray and w.dtype == np.float32 for w in weights.values())
    state = torch.random.get_rng_state()
    again = training.from_arrays(torch, lambda: ResidualEncoder((2, 9, 8), 5), weights)
    assert torch.equal(torch.random.get_rng_state(), state)
    x = torch.randn(3, 2, 9, 8)
    assert torch.equal(again(x), encoder(x))


def test_the_momentum_goes_from_its_start_to_one_by_a_cosine():
    values = [momentum_at(0.9, p) for p in np.linspace(0, 1, 11)]
    assert values[0] == pytest.approx(0.9)
    assert values[5] == pytest.approx(0.95)
    assert values[-1] == pytest.approx(1.0)
    assert all(b > a for a, b in itertools.pairwise(values))


def test_the_target_moves_by_one_minus_the_momentum():
    online, target = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
    before = [p.detach().clone() for p in target.parameters()]
    move_target(online, target, 0.9)
    for now, old, new in zip(target.parameters(), before, online.parameters(), strict=True):
        torch.testing.assert_close(now.detach(), 0.9 * old + 0.1 * new.detach())
    move_target(online, target, 1.0)
    move_target(online, target, 0.0)
    for now, new in zip(target.parameters(), online.parameters(), strict=True):
        torch.testing.assert_close(now, new)


def test_khatri_rao_is_that_of_the_decompositions():
    factors = [np.random.default_rng(d).normal(size=(d, 3)) for d in (4, 2, 5)]
    ours = networks.khatri_rao([torch.from_numpy(U) for U in factors]).numpy()
    np.testing.assert_allclose(ours, kernels.khatri_rao(factors), rtol=1e-13)


def test_the_residual_is_that_of_a_slow_loop_and_has_its_gradient():
    rng = np.random.default_rng(0)
    X, W = rng.normal(size=(6, 8)), rng.normal(size=(6, 3))
    A, B = rng.normal(size=(4, 3)), rng.normal(size=(2, 3))
    slow = 0.0
    for n in range(6):
        for i in range(4):
            for j in range(2):
                model = sum(W[n, r] * A[i, r] * B[j, r] for r in range(3))
                slow += (X[n, 2 * i + j] - model) ** 2 / 6
    tensors = [torch.from_numpy(v).requires_grad_() for v in (W, A, B)]

    def loss(W, A, B):
        return networks.residual(torch.from_numpy(X), W, networks.khatri_rao([A, B]))

    assert float(loss(*tensors).detach()) == pytest.approx(slow)
    assert torch.autograd.gradcheck(loss, tensors)


def test_generated_factors_have_unit_columns_and_rows_of_features_stand_alone():
    made = networks.Priors(10, (1, 2, 7), 3, 8, True)
    factors = made.factors()
    assert [tuple(U.shape) for U in factors] == [(1, 3), (2, 3), (7, 3)]
    for U in factors:
        torch.testing.assert_close(U.norm(dim=0), torch.ones(3))
    rows = torch.tensor([7, 2])
    torch.testing.assert_close(made.features(torch.arange(10))[rows], made.features(rows))


def test_fixed_inputs_are_not_trained():
    learned, fixed = (networks.Priors(10, (4, 5), 3, 8, flag) for flag in (True, False))
    inputs = 3 * (10 + 4 + 5)
    assert training.count_parameters(learned) - training.count_parameters(fixed) == inputs


@pytest.mark.parametrize(("n", "size"), [(2, 2), (3, 2), (7, 2), (10, 4), (129, 128), (5, 128)])
def test_batches_hold_every_sample_once_and_never_one_alone(n, size):
    parts = list(training.batches(n, size, np.random.default_rng(0)))
    assert sorted(np.concatenate(parts).tolist()) == list(range(n))
    assert min(len(p) for p in parts) >= 2
    assert max(len(p) for p in parts) <= size + 1


def losses(values):
    iterator = iter(values)

    def epoch():
        value = next(iterator)
        if not math.isfinite(value):
            raise training.LossError(f"{value}")
        return value

    return epoch


def run(values, **options):
    monitor = Monitor("demo", max_iter=len(values), tol=0.0)
    settings = {"tol": 0.01, "patience": 2, "terms": {}} | options
    outcome = training.train(losses(values), torch.nn.Linear(1, 1), monitor, **settings)
    return outcome, monitor.n_iter


def test_a_loss_that_no_longer_falls_ends_the_training():
    outcome, n = run([5.0, 4.0, 3.99, 3.98, 1.0, 0.5])
    assert outcome.converged
    assert n == 4


def test_progress_or_a_tolerance_of_zero_goes_on():
    assert run([5.0, 4.0, 3.99, 3.0, 2.99, 2.0])[1] == 6
    outcome, n = run([5.0, 5.0, 5.0, 5.0, 5.0], tol=0.0)
    assert not outcome.converged
    assert n == 5


def test_a_plateau_before_the_start_is_not_taken_for_the_end():
    values = [1.2, 1.0, 1.0, 1.0, 1.0, 0.5, 0.5, 0.5]
    assert run(values, begun_below=0.99)[1] == 8
    assert run(values)[1] == 4


def test_a_loss_that_is_not_finite_at_once_is_an_error():
    with pytest.raises(NumericalError, match=r"first epoch.*learning_rate"):
        run([math.nan])
