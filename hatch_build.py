"""The readme of the package: links and images that work outside of the repository too.

In the repository the links of README.md are relative. Where a package index shows it there are no
files beside it, so that the build makes them absolute.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_RELATIVE = re.compile(r"(!?)\[([^\]]*)\]\((?![a-z]+:|#)([^)\s]+)\)")


class ReadmeHook(MetadataHookInterface):
    """Gives the package its readme."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set ``readme``, with absolute links."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        repository = metadata["urls"]["Repository"]
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": absolute(text, repository),
        }


def absolute(text: str, repository: str) -> str:
    """Return Markdown whose relative links and images point into a repository of GitHub."""
    raw = repository.replace("//github.com/", "//raw.githubusercontent.com/")

    def link(match: re.Match[str]) -> str:
        image, words, path = match.groups()
        start = f"{raw}/main" if image else f"{repository}/blob/main"
        return f"{image}[{words}]({start}/{path})"

    return _RELATIVE.sub(link, text)
