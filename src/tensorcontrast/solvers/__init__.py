"""How a CP model is fitted: alternating least squares, closed form, gradient descent."""
