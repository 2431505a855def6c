"""Where the tensors of a fit come from: memory, mapped files, stores, streams."""
