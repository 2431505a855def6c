"""Ratios against peers and the limit of the machine, measured side by side in one run."""
