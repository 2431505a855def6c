"""The algebra of the CP model: arrays in, arrays out; no estimator, no files."""
