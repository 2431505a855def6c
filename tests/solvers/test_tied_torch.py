"""E19 and E20 against a twin whose gradients come from PyTorch's automatic differentiation."""

import numpy as np
import pytest

from tensorcontrast.cp import losses
from tensorcontrast.cp.graph import SignedGraph
from tensorcontrast.solvers import gradient

torch = pytest.importorskip("torch")


def twin(X, V, factors, positives, *, alpha, beta, temperature, signed=None):
    """Mean reconstruction plus β contrast, written as the equations are."""
    H = factors[0]
    for U in factors[1:]:
        H = (H[:, None, :] * U[None, :, :]).reshape(-1, H.shape[1])
    K = H.T @ H + alpha * torch.eye(H.shape[1], dtype=X.dtype)
    value, standard = 0.0, []
    for data in (X, V):
        W = data @ H @ torch.linalg.inv(K)
        residual = ((data - W @ H.T) ** 2).sum() + alpha * (W**2).sum()
        value = value + 0.5 * residual / len(data)
        Z = W - W.mean(dim=0)
        standard.append(Z / Z.std(dim=0, unbiased=False))
    a, b = (torch.nn.functional.normalize(Z, dim=1) for Z in standard)
    cosines = a @ b.T
    if signed is None:
        share = positives / positives.sum(dim=1, keepdim=True)
        contrast = -(share * torch.log_softmax(cosines / temperature, dim=1)).sum() / len(X)
    else:
        contrast = (signed * cosines).sum() / len(X)
    return value + beta * contrast


def case(dims, seed, n=24, r=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, int(np.prod(dims))))
    V = X + 0.3 * rng.normal(size=X.shape)
    factors = [rng.normal(size=(d, r)) for d in dims]
    known = np.where(rng.random(n) < 0.4, rng.integers(0, 2, n), -1)
    graph = SignedGraph(rng.integers(0, 4, n), known, rng.random(n))
    return X, V, factors, graph


@pytest.mark.parametrize("dims", [(8,), (4, 5), (3, 4, 5), (2, 3, 2, 4)])
@pytest.mark.parametrize("form", ["softmax", "signed"])
@pytest.mark.parametrize("seed", [0, 1])
def test_closed_form_is_automatic_differentiation(dims, form, seed):
    X, V, factors, graph = case(dims, seed)
    alpha, beta, temperature, gamma = 0.05, 0.7, 0.3, 0.8
    n = len(X)
    if form == "softmax":

        def loss(W, Z):
            return losses.graph_softmax(W, Z, graph, temperature, gamma=gamma)

    else:

        def loss(W, Z):
            value, (a, b) = losses.plc(W, Z, graph, gamma)
            return value / n, (a / n, b / n)

    value, gradients, _ = gradient.tied_objective(X, V, factors, loss, alpha=alpha, beta=beta)
    tensors = [torch.tensor(U, requires_grad=True) for U in factors]
    joined = gamma * graph.joined()
    np.fill_diagonal(joined, 1.0)
    signed = None
    if form == "signed":
        signed = torch.tensor(-np.eye(n) - gamma / (n - 1) * graph.dense())
    other = twin(
        torch.tensor(X),
        torch.tensor(V),
        tensors,
        torch.tensor(joined),
        alpha=alpha,
        beta=beta,
        temperature=temperature,
        signed=signed,
    )
    other.backward()
    assert value == pytest.approx(float(other.detach()), rel=1e-9)
    for mine, theirs in zip(gradients, tensors, strict=True):
        np.testing.assert_allclose(mine, theirs.grad.numpy(), rtol=1e-6, atol=1e-9)
