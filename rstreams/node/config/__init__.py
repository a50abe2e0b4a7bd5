"""A node described by data: a config file, its problems with their lines, and what would run."""

from rstreams.node.config.description import DeclaredAddress, DeclaredHttp, DeclaredListener, NodeConfig, TlsFiles
from rstreams.node.config.problems import BrokenConfig, Problem
from rstreams.node.config.reading import read_config

__all__ = [
    "BrokenConfig",
    "DeclaredAddress",
    "DeclaredHttp",
    "DeclaredListener",
    "NodeConfig",
    "Problem",
    "TlsFiles",
    "read_config",
]
