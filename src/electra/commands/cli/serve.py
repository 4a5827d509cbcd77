"""Serve models over HTTP: a page to try them, and detect, embed, predict and fill as a JSON API."""

from __future__ import annotations

from dataclasses import dataclass

from electra.commands.cli.arguments import Positional, part
from electra.foundation.machine import Device

ALIASES = {"--batch": "--batch-size"}  # as it was once called


@dataclass(frozen=True)
class Arguments:
    models: Positional[tuple[str, ...]]
    """Run folders, model folders (those of ONNX graphs, too), fine-tunings or names on the hub. The page
    needs a run: it has both networks.
    """
    host: str = "127.0.0.1"
    """The address to listen on. With 0.0.0.0 other machines can connect; there is no login."""
    port: int = 8000
    """The port to listen on (0: any free one)."""
    threads: int | None = None
    """CPU threads (default: torch's choice)."""
    max_texts: int = 256
    """Most texts in one request."""
    max_characters: int = 20_000
    """Most characters in one text."""
    max_read: int = 400_000
    """Most tokens to read for one request where a language model judges, which reads a text once a word."""
    max_body: int = 1 << 20
    """Most bytes in one request."""
    timeout: float = 30.0
    """Seconds after which an unanswered request fails."""
    queue: int = 1024
    """Requests that may wait; further ones are answered with 503."""
    batch_size: int = 256
    """Texts to compute together."""
    device: Device = "auto"
    """Where to compute (auto: a CUDA GPU when there is one; mps: an Apple GPU)."""


def run(arguments: Arguments) -> int:
    from electra.commands.workflow.display import Terminal
    from electra.commands.workflow.serve import serve
    from electra.foundation.errors import ConfigError
    from electra.serving.limits import Limits

    if not arguments.models:
        raise ConfigError("no model given", where="electra serve", fix="For example: electra serve runs/mine")
    return serve(
        arguments.models,
        host=arguments.host,
        port=arguments.port,
        limits=part(Limits, arguments),
        device=arguments.device,
        threads=arguments.threads,
        progress=Terminal(),
    )
