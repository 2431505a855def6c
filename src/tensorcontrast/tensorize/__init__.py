"""Transformers from signals [n, channel, time] to tensors and features."""

from tensorcontrast.spectrogram import SpectrogramTensor
from tensorcontrast.tensorize.convolution import ConvolutionFeatures

__all__ = ["ConvolutionFeatures", "SpectrogramTensor"]
