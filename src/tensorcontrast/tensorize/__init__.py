"""Transformers from signals [n, channel, time] to tensors and features."""

from tensorcontrast.tensorize.convolution import ConvolutionFeatures
from tensorcontrast.tensorize.spectrogram import SpectrogramTensor

__all__ = ["ConvolutionFeatures", "SpectrogramTensor"]
