"""The compiled engine (native/engine.cpp), if there is one: what its functions take."""

import ctypes
from functools import cache

from regard.native.library import POINTER
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
        *[(name, POINTER) for name in ("project", "merge", "cross_ask", "cross_merge")],
        *[(name, POINTER) for name in ("gate", "up_proj", "down_proj", "distance_bias")],
        *[(name, ctypes.c_int) for name in ("heads", "cross_heads")],
    ]


class Stack(ctypes.Structure):
    _fields_ = [
        *[(name, ctypes.c_int) for name in ("dim", "heads", "kv_heads", "head_dim", "ffn_dim")],
        *[(name, ctypes.c_int) for name in ("layers", "capacity", "vocabulary")],
        *[(name, ctypes.c_int) for name in ("norm_first", "activation", "rotary")],
        *[(name, ctypes.c_float) for name in ("embedding_scale", "score_scale")],
        *[(name, POINTER) for name in ("tokens", "positions", "cosines", "sines")],
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
        *[(name, ctypes.c_int) for name in ("rows", "count", "past")],
        *[(name, POINTER) for name in ("ids", "said", "ancestors", "source")],
        *[(name, POINTER) for name in ("source_start", "source_count")],
        ("wanted", ctypes.c_int),
        ("logits", POINTER),
    ]


class Greedy(ctypes.Structure):
    _fields_ = [
        ("step", Step),
        ("limits", POINTER),
        *[(name, ctypes.c_int) for name in ("end", "longest")],
        *[(name, POINTER) for name in ("words", "counts")],
    ]


@cache
def library() -> ctypes.CDLL | None:
    """The engine's functions; None where it was not built or cannot run here."""
    found = compiled()
    return None if found is None else _declared(found)


def _declared(found: ctypes.CDLL) -> ctypes.CDLL:
    integer = ctypes.c_int
    found.regard_matrix.restype = POINTER
    found.regard_matrix.argtypes = [POINTER, POINTER, integer, integer, integer]
    found.regard_forget.argtypes = [POINTER]
    found.regard_apply.argtypes = [POINTER, POINTER, integer, POINTER, integer]
    found.regard_rank.argtypes = [POINTER, *[integer] * 3, POINTER, POINTER, POINTER, integer]
    found.regard_encode.argtypes = [ctypes.POINTER(Stack), ctypes.POINTER(Encoding), integer]
    found.regard_step.argtypes = [ctypes.POINTER(Stack), ctypes.POINTER(Step), integer]
    found.regard_greedy.argtypes = [ctypes.POINTER(Stack), ctypes.POINTER(Greedy), integer]
    for function in (
        found.regard_forget,
        found.regard_apply,
        found.regard_rank,
        found.regard_encode,
        found.regard_step,
        found.regard_greedy,
    ):
        function.restype = None
    return found
