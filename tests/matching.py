"""How alike two CP models are."""

from tensorcontrast.cp import diagnostics


def factor_match_score(a, b):
    """1 where the factors of two models agree up to order, sign and scale."""
    return diagnostics.match(a, b).score
