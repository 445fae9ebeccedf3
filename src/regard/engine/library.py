"""The compiled engine (native/engine.h), if there is one: its structs and function signatures.

Fields are in the order of the C++ structs and have their names.
"""

import ctypes
from functools import cache

from regard.native.library import POINTER, declare
from regard.native.library import library as compiled


class Norm(ctypes.Structure):
    _fields_ = [
        ("gain", POINTER),
        ("bias", POINTER),
        ("eps", ctypes.c_float),
        ("kind", ctypes.c_int),
    ]


class Layer(ctypes.Structure):
    _fields_ = [
        *[(name, Norm) for name in ("attention_norm", "cross_norm", "feed_forward_norm")],
        *[(name, POINTER) for name in ("project", "merge", "cross_query", "cross_merge")],
        *[(name, POINTER) for name in ("gate", "up_proj", "down_proj", "distance_bias")],
        *[(name, ctypes.c_int) for name in ("heads", "kv_heads", "cross_heads", "cross_kv_heads")],
    ]


class Stack(ctypes.Structure):
    _fields_ = [
        *[(name, ctypes.c_int) for name in ("dim", "heads", "kv_heads", "head_dim", "ffn_dim")],
        *[(name, ctypes.c_int) for name in ("layers", "capacity", "vocabulary")],
        *[(name, ctypes.c_int) for name in ("norm_first", "activation", "rotary")],
        *[(name, ctypes.c_float) for name in ("embedding_scale", "score_scale")],
        *[(name, POINTER) for name in ("tokens", "token_matrix")],
        *[(name, POINTER) for name in ("positions", "cosines", "sines")],
        ("embedding_norm", Norm),
        ("final_norm", Norm),
        ("layer", ctypes.POINTER(Layer)),
        ("output", POINTER),
    ]


class Encoding(ctypes.Structure):
    _fields_ = [
        *[(name, ctypes.c_int) for name in ("sentences", "tokens")],
        *[(name, POINTER) for name in ("ids", "starts", "states")],
    ]


class Step(ctypes.Structure):
    _fields_ = [
        ("rows", ctypes.c_int),
        *[(name, POINTER) for name in ("ids", "starts", "past", "cache")],
        *[(name, POINTER) for name in ("source", "source_count")],
        ("num_outputs", ctypes.c_int),
        *[(name, POINTER) for name in ("outputs", "logits")],
    ]


class Decoding(ctypes.Structure):
    _fields_ = [
        *[(name, ctypes.c_int) for name in ("limit", "end", "width", "n_best", "early_stopping")],
        ("norms", POINTER),
    ]


class Found(ctypes.Structure):
    _fields_ = [
        ("count", ctypes.c_int),
        *[(name, POINTER) for name in ("tokens", "counts", "scores", "ended_itself")],
    ]


class Progress(ctypes.Structure):
    _fields_ = [
        ("count", ctypes.c_int),
        *[(name, POINTER) for name in ("numbers", "tokens", "states")],
    ]


@cache
def library() -> ctypes.CDLL | None:
    """Return the library with its signatures, or None if it was not built or cannot run here."""
    loaded = compiled()
    return None if loaded is None else _declare_signatures(loaded)


def _declare_signatures(loaded: ctypes.CDLL) -> ctypes.CDLL:
    integer, pointer = ctypes.c_int, ctypes.POINTER
    declare(loaded.regard_matrix, [POINTER, POINTER, *[integer] * 3, pointer(POINTER)])
    declare(loaded.regard_apply, [POINTER, POINTER, integer, POINTER, integer])
    declare(loaded.regard_rank, [POINTER, *[integer] * 3, *[POINTER] * 3, integer])
    declare(loaded.regard_encode, [pointer(Stack), pointer(Encoding), integer])
    declare(
        loaded.regard_transform,
        [POINTER, integer, pointer(Norm), POINTER, integer, POINTER, integer],
    )
    declare(loaded.regard_pool, [*[POINTER] * 3, *[integer] * 2, POINTER, integer])
    declare(loaded.regard_step, [pointer(Stack), pointer(Step), integer])
    declare(
        loaded.regard_decode,
        [pointer(Stack), pointer(Step), pointer(Decoding), pointer(Found), integer, integer],
    )
    declare(loaded.regard_batch, [pointer(Stack), pointer(POINTER)])
    declare(
        loaded.regard_join,
        [POINTER, pointer(Step), pointer(Decoding), pointer(ctypes.c_int64)],
    )
    declare(
        loaded.regard_advance,
        [POINTER, pointer(Step), POINTER, integer, pointer(Progress)],
    )
    declare(loaded.regard_found, [POINTER, ctypes.c_int64, pointer(Found)])
    declare(loaded.regard_leave, [POINTER, ctypes.c_int64])
    for free in (loaded.regard_free_matrix, loaded.regard_free_batch):
        free.argtypes, free.restype = [POINTER], None
    return loaded
