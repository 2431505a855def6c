"""Advice of the library in the words of the command line: options in place of Python's keywords.

Messages of the library name keywords (``pass fs=``) and calls (``PLC(solver='tied')``). All of them
come past :func:`in_options` on their way to the terminal, once.
"""

from __future__ import annotations

import re
from functools import cache

__all__ = ["in_options"]

#: Options that mean what a keyword means.
_OPTIONS = {
    "abstain": "--abstain",
    "classifier": "--classifier",
    "smooth": "--smooth",
    "dwell": "--dwell",
    "allow_nan": "--drop-nan",
    "annotations": "--annotations",
    "channels": "--channels",
    "checkpoint": "--checkpoint",
    "format": "--data-format",
    "fresh": "--fresh",
    "fs": "--fs",
    "group": "--groups",
    "groups": "--groups",
    "drop_unlabelled": "--drop-unlabelled",
    "hop": "--hop",
    "inside_annotations": "--inside-annotations",
    "label": "--labels",
    "label_share": "--label-share",
    "labels": "--labels",
    "mean_row": "--mean-row",
    "missing": "--missing",
    "n_fft": "--n-fft",
    "n_jobs": "--jobs",
    "n_quantiles": "--n-quantiles",
    "random_state": "--seed",
    "rank": "--rank",
    "representation": "--representation",
    "resample": "--resample",
    "resume": "--resume",
    "robust": "--robust",
    "sample": "--sample",
    "time": "--time",
    "window": "--window",
    "window_s": "--window",
    "workers": "--workers",
}
#: Of these, those that stand alone.
_FLAGS = {"allow_nan", "drop_unlabelled", "fresh", "inside_annotations", "mean_row"}
_WORDS = {"True": "yes", "False": "no"}

#: Sentences that have no word-for-word counterpart, and those that are Python's alone.
_SENTENCES = tuple(
    (re.compile(pattern), words)
    for pattern, words in (
        (r"smooth='viterbi'(?=[ :])", "--smooth"),
        (
            r"pass recording= with the recording of each window, or Recordings with the columns",
            "use continuous recordings, with",
        ),
        (r"such as by Recordings\.read\(.*?\) or Recordings\.from_signals", "with --window S"),
        (r"a shorter window or pass short='drop'", "a shorter --window, or leave it out"),
        (r"a shorter window or another label_rule", "a shorter --window"),
        (r"give a window(?=,)", "give a --window"),
        (r"written by \.save\(path\)", "written by tensorcontrast fit -o MODEL"),
        (r"written by \w+\(checkpoint=path\)", "written by tensorcontrast fit --checkpoint FILE"),
        (
            r"select and order them with recordings\.select\(channels=…\)",
            "select and order them with --channels",
        ),
        (r"pass fit\(X, checkpoint=path, resume=True\), or resume=path", "pass --checkpoint FILE"),
        (r"fit without resume=", "leave --resume out (--force begins anew)"),
        (
            r"with checkpoint=PATH, fit\(resume=PATH\) goes on with the same data",
            "after --checkpoint FILE the same command with --resume goes on",
        ),
        (
            r"all max_iter=(\S+) iterations before the objective settled to tol=(.+?); raise "
            r"max_iter or tol(?: \(history_ has all iterations\))?",
            r"all \1 iterations before the objective settled to \2; raise -p max_iter= or -p tol=",
        ),
        (r"call fit\(X, y\), with \S+ for unknown, or ", "fit uses no labels here: "),
        (r"n_samples=(\d+)", r"\1 windows"),
        (r"random_state=\S+ \(there [^)]*\)", "another --seed"),
        (r"\brank_=(\d+) is used", r"a rank of \1 is used"),
        (
            r"pass magnitudes, such as SpectrogramTensor\(\) makes them, without "
            r"ConvolutionFeatures, or nonnegative=False",
            "use --representation sqrt-magnitude without --mean-row, or leave it out",
        ),
        (r"\bnonnegative=True", "-p nonnegative=true"),
        (r",? or X\.compute\(\)", ""),
        (r" \(or pass verify=False\)", ""),
        (r"fresh=True, (?=--fresh)", ""),
        (r"by data_home= or the environment", "by the environment"),
        (r"\b(PLC|CPD|ATD)\(((?:\w+=[^()]*)+)\)", r"\1 with \2"),
    )
)
_KEYWORD = re.compile(
    r"(?<![\w/.\\'\"=-])(?<!-p )([a-z]\w*)=('[^']*'|\"[^\"]*\"|\([^)]*\)|[\w.+-]*\w%?)?"
)


@cache
def _parameters() -> frozenset[str]:
    """Names of the parameters of all methods, which ``-p`` sets."""
    from tensorcontrast.decompose import ATD, CPD, PLC
    from tensorcontrast.decompose.options import option_names

    return frozenset(name for kind in (ATD, CPD, PLC) for name in option_names(kind)) | {"every"}


def in_options(text: str) -> str:
    """Return a message of the library with options of the command line for its keywords.

    Examples
    --------
    >>> in_options("pass window_s= with another length, or missing='mask'")
    'pass --window with another length, or --missing mask'
    >>> in_options("pass a larger alpha or dtype='float64'")
    'pass a larger alpha or -p dtype=float64'
    """
    for pattern, words in _SENTENCES:
        text = pattern.sub(words, text)
    return _KEYWORD.sub(_option, text)


def _option(match: re.Match[str]) -> str:
    name, value = match[1], (match[2] or "").strip("'\"")
    if name == "mean_row" and value == "False":
        return "--no-mean-row"
    if name in _FLAGS or (name == "resume" and value == "True"):
        return _OPTIONS[name]
    if name in _OPTIONS:
        return f"{_OPTIONS[name]} {_WORDS.get(value, value)}".rstrip()
    if name in _parameters():
        return f"-p {name}={value}"
    return match[0]
