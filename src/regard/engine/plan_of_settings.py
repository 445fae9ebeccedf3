"""The plan of a model from the settings in model.json, without torch.

The settings are those of the Transformers in `models/`. What is not known here to be supported
raises UnsupportedError: the run is then loaded with torch, which also explains what may be wrong.
Names and shapes must be those of the stored tensors exactly (`check_shapes`), so that a plan never
describes another model.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeVar, get_args

from regard.engine.plan import (
    LAYER_NORM,
    RMS_NORM,
    Attention,
    DistanceBias,
    EncoderPlan,
    FeedForward,
    Layer,
    LearnedPositions,
    Linear,
    ModelPlan,
    Norm,
    Plan,
    Pooling,
    PoolingKind,
    RotaryScaling,
    Rotation,
    Shape,
    Sinusoids,
    Slopes,
    Stack,
    Transform,
    UnsupportedError,
)
from regard.positions.slopes import slopes

T = TypeVar("T")
P = TypeVar("P", bound=Plan)

TRANSFORMER = (
    *("kind", "max_length", "size", "dim", "heads", "head_dim", "kv_heads", "ffn_dim", "layers"),
    *("dropout", "attention", "position", "norm", "norm_first", "feed_forward", "bias"),
    *("scale_embedding", "embedding_norm", "retained_heads"),
)
LANGUAGE_MODEL = (*TRANSFORMER, "tie_embeddings", "output_bias")
ENCODER_DECODER = (*LANGUAGE_MODEL, "decoder_layers", "encoder_attention", "cross_attention")
MASKED_LM = (*LANGUAGE_MODEL, "transform")
CLASSIFIER = (*TRANSFORMER, "pooling", "classes")
ACTIVATIONS = {"relu": 1, "gelu": 2, "gelu-tanh": 3, "silu": 4, "sigmoid": 5}
POSITIONS = ("sinusoidal", "learned", "rotary", "alibi", "distance", "none")
MAX_SIZE, MAX_HEADS, MAX_LAYERS, MAX_CLIP = 1 << 24, 1 << 14, 10_000, 1 << 16

Settings = Mapping[str, Any]


def plan_of_settings(settings: Settings, vocabulary: int) -> Plan:
    """Return the plan of a model.

    Args:
        settings: The content of the key `model` of model.json.
        vocabulary: Number of rows of the token embedding.

    Raises:
        UnsupportedError: The engine cannot compute the model, or a setting is not known here.
    """
    kind = settings.get("kind")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise UnsupportedError(f"model of kind {kind}")
    keys, plan = _KINDS[kind]
    _only(settings, keys)
    return plan(_Planner(settings, vocabulary))


def check_shapes(plan: Plan, stored: Mapping[str, Shape]) -> None:
    """Raise UnsupportedError where the tensors of a file are not exactly those of the plan."""
    shapes = plan.shapes()
    if shapes != dict(stored):
        differing = sorted({name for name, _ in shapes.items() ^ stored.items()})
        raise UnsupportedError(f"tensors of other names or shapes: {differing[0]}")


class _Planner:
    """Builds the plan of one model from its checked settings."""

    def __init__(self, settings: Settings, vocabulary: int) -> None:
        self.settings, self.vocabulary = settings, vocabulary
        self.dim, self.heads = _size(settings, "dim"), _size(settings, "heads", MAX_HEADS)
        self.ffn_dim, self.max_length = (_size(settings, key) for key in ("ffn_dim", "max_length"))
        head_dim, kv_heads = (_optional_size(settings, key) for key in ("head_dim", "kv_heads"))
        self.kv_heads = kv_heads or self.heads
        if self.heads % self.kv_heads or (head_dim is None and self.dim % self.heads):
            raise UnsupportedError("heads that do not divide the model")
        self.head_dim = head_dim or self.dim // self.heads
        self.layers = _size(settings, "layers", MAX_LAYERS)
        self.decoder_layers = _optional_size(settings, "decoder_layers", MAX_LAYERS) or self.layers
        self.bias, self.norm_first = (_switch(settings, key) for key in ("bias", "norm_first"))
        self.position = _section(settings, "position")
        _one_of(self.position.get("kind"), POSITIONS, "positions")
        self.retained = _retained_heads(settings["retained_heads"])
        for key in ("attention", "encoder_attention", "cross_attention"):
            if settings.get(key) is not None or key == "attention":
                _only(_section(settings, key), ("kind",))
                _one_of(settings[key]["kind"], ("fused", "reference"), "attention")
        self.attentions: set[str] = set()  # names of all

    def language_model(self) -> ModelPlan:
        tied, tokens = _switch(self.settings, "tie_embeddings"), "decoder.embedding.tokens.weight"
        decoder = self._decoder(self.layers, tokens, tied, cross=False)
        return self._complete(ModelPlan(None, decoder))

    def encoder_decoder(self) -> ModelPlan:
        known = ("all", "embeddings", "output", "none")
        tie = _one_of(self.settings["tie_embeddings"], known, "tie_embeddings")
        source = target = "encoder.embedding.tokens.weight"  # the name of a shared tensor
        if tie in ("output", "none"):
            target = "decoder.embedding.tokens.weight"
        tied, encoder = tie in ("all", "output"), self._encoder("encoder.", source)
        return self._complete(
            ModelPlan(encoder, self._decoder(self.decoder_layers, target, tied, cross=True))
        )

    def encoder(self) -> EncoderPlan:
        return self._complete(EncoderPlan(self._encoder("", "embedding.tokens.weight")))

    def masked_lm(self) -> EncoderPlan:
        tokens = "encoder.embedding.tokens.weight"
        tied, bias = (_switch(self.settings, key) for key in ("tie_embeddings", "output_bias"))
        output = Linear(
            tokens if tied else "output.weight",
            "output.bias" if bias else None,
            self.vocabulary,
            self.dim,
        )
        encoder = self._encoder("encoder.", tokens)
        return self._complete(EncoderPlan(encoder, None, self._transform(), output))

    def classifier(self) -> EncoderPlan:
        section = _section(self.settings, "pooling")
        _only(section, ("kind",))
        kinds: tuple[PoolingKind, ...] = get_args(PoolingKind)
        kind = _one_of(section["kind"], kinds, "pooling")
        pooling = Pooling(kind, "pool.query" if kind == "attention" else None)
        output = _linear("output", _size(self.settings, "classes"), self.dim, True)
        encoder = self._encoder("encoder.", "encoder.embedding.tokens.weight")
        return self._complete(EncoderPlan(encoder, pooling, None, output))

    def _complete(self, plan: P) -> P:
        if not self.retained.keys() <= self.attentions:
            raise UnsupportedError("retained_heads of an attention that the model does not have")
        return plan

    def _transform(self) -> Transform | None:
        kind = self.settings["transform"]
        if kind == "none":
            return None
        code = ACTIVATIONS[_one_of(kind, ACTIVATIONS, "activation")]
        dense = _linear("transform.dense", self.dim, self.dim, True)
        return Transform(dense, code, self._norm("transform.norm"))

    def _encoder(self, prefix: str, tokens: str) -> Stack:
        layers = [self._layer(f"{prefix}blocks.{n}", cross=False) for n in range(self.layers)]
        return self._stack(prefix, tokens, layers, None)

    def _decoder(self, count: int, tokens: str, tied: bool, cross: bool) -> Stack:
        layers = [self._layer(f"decoder.blocks.{number}", cross) for number in range(count)]
        bias = "decoder.output.bias" if _switch(self.settings, "output_bias") else None
        weight = tokens if tied else "decoder.output.weight"
        output = Linear(weight, bias, self.vocabulary, self.dim)
        return self._stack("decoder.", tokens, layers, output)

    def _stack(self, prefix: str, tokens: str, layers: list[Layer], output: Linear | None) -> Stack:
        has_norm = _switch(self.settings, "embedding_norm")
        return Stack(
            dim=self.dim,
            head_dim=self.head_dim,
            ffn_dim=self.ffn_dim,
            norm_first=self.norm_first,
            tokens=tokens,
            num_embeddings=self.vocabulary,
            embedding_scale=self.dim**0.5 if _switch(self.settings, "scale_embedding") else 1.0,
            position=self._position(f"{prefix}embedding.position"),
            rotation=self._rotation(),
            embedding_norm=self._norm(f"{prefix}embedding.norm") if has_norm else Norm(),
            layers=layers,
            final_norm=self._norm(f"{prefix}norm") if self.norm_first else Norm(),
            output=output,
        )

    def _layer(self, path: str, cross: bool) -> Layer:
        return Layer(
            attention_norm=self._norm(f"{path}.attention_residual.norm"),
            attention=self._attention(f"{path}.attention"),
            distance_bias=self._distances(f"{path}.attention"),
            cross_norm=self._norm(f"{path}.cross_residual.norm") if cross else Norm(),
            cross=self._attention(f"{path}.cross") if cross else None,
            feed_forward_norm=self._norm(f"{path}.feed_forward_residual.norm"),
            feed_forward=self._feed_forward(f"{path}.feed_forward"),
        )

    def _attention(self, path: str) -> Attention:
        self.attentions.add(path)
        heads, kv_heads = self.heads, self.kv_heads
        if (retained := self.retained.get(path)) is not None:
            heads, kv_heads = _heads_left(retained, heads, kv_heads)
        width, kv_width = heads * self.head_dim, kv_heads * self.head_dim
        return Attention(
            _linear(f"{path}.w_q", width, self.dim, self.bias),
            _linear(f"{path}.w_k", kv_width, self.dim, self.bias),
            _linear(f"{path}.w_v", kv_width, self.dim, self.bias),
            _linear(f"{path}.w_o", self.dim, width, self.bias),
            heads,
            kv_heads,
        )

    def _feed_forward(self, path: str) -> FeedForward:
        section = _section(self.settings, "feed_forward")
        _only(section, ("kind", "activation", "bias"))
        kind = _one_of(section["kind"], ("dense", "gated"), "feed-forward network")
        activation = _section(section, "activation")
        _only(activation, ("kind",))
        code = ACTIVATIONS[_one_of(activation["kind"], ACTIVATIONS, "activation")]
        bias, inner, outer = _switch(section, "bias"), self.ffn_dim, self.dim
        return FeedForward(
            _linear(f"{path}.gate_proj", inner, outer, bias) if kind == "gated" else None,
            _linear(f"{path}.up_proj", inner, outer, bias),
            _linear(f"{path}.down_proj", outer, inner, bias),
            code,
        )

    def _norm(self, path: str) -> Norm:
        section = _section(self.settings, "norm")
        kind = _one_of(section.get("kind"), ("layer", "rms"), "norm")
        switches = ("gain", "bias") if kind == "layer" else ("gain",)
        _only(section, ("kind", "eps", *switches))
        names = [f"{path}.{key}" if _switch(section, key) else None for key in switches]
        return Norm(LAYER_NORM if kind == "layer" else RMS_NORM, _number(section, "eps"), *names)

    def _position(self, path: str) -> Sinusoids | LearnedPositions | None:
        section = self.position
        if section["kind"] == "sinusoidal":
            _only(section, ("kind", "base", "layout"))
            layouts: tuple[Literal["interleaved", "halves"], ...] = ("interleaved", "halves")
            layout = _one_of(section["layout"], layouts, "layout")
            return Sinusoids(_number(section, "base", above=1), layout)
        if section["kind"] == "learned":
            _only(section, ("kind",))
            return LearnedPositions(f"{path}.table", self.max_length)
        return None

    def _rotation(self) -> Rotation | None:
        section = self.position
        if section["kind"] != "rotary":
            return None
        _only(section, ("kind", "base", "pairs", "scaling"))
        pair_kinds: tuple[Literal["adjacent", "halves"], ...] = ("adjacent", "halves")
        pairs, scaling = _one_of(section["pairs"], pair_kinds, "pairs"), None
        if self.head_dim % 2:
            raise UnsupportedError("rotary positions of an odd number of components")
        if section["scaling"] is not None:
            scaled = _section(section, "scaling")
            _only(scaled, ("factor", "context", "low", "high"))
            factor, low, high = (_number(scaled, key) for key in ("factor", "low", "high"))
            if low >= high or factor < 1:
                raise UnsupportedError("scaling")
            scaling = RotaryScaling(factor, _optional_size(scaled, "context"), low, high)
        return Rotation(_number(section, "base", above=1), pairs, scaling)

    def _distances(self, path: str) -> Slopes | DistanceBias | None:
        section = self.position
        heads = self.retained.get(path, range(self.heads))
        if section["kind"] == "alibi":
            _only(section, ("kind",))
            by_head = slopes(self.heads)
            return Slopes(tuple(by_head[head] for head in heads))
        if section["kind"] == "distance":
            _only(section, ("kind", "clip"))
            clip = _size(section, "clip", MAX_CLIP)
            return DistanceBias(f"{path}.position.table", len(heads), clip)
        if section["kind"] == "none":
            _only(section, ("kind",))
        return None


# Keys of the settings of each kind, and the function that makes its plan.
_KINDS: dict[str, tuple[tuple[str, ...], Callable[[_Planner], Plan]]] = {
    "encoder-decoder": (ENCODER_DECODER, _Planner.encoder_decoder),
    "language-model": (LANGUAGE_MODEL, _Planner.language_model),
    "encoder": (TRANSFORMER, _Planner.encoder),
    "masked-lm": (MASKED_LM, _Planner.masked_lm),
    "classifier": (CLASSIFIER, _Planner.classifier),
}


def _linear(path: str, outputs: int, inputs: int, bias: bool) -> Linear:
    return Linear(f"{path}.weight", f"{path}.bias" if bias else None, outputs, inputs)


def _retained_heads(retained: Any) -> dict[str, list[int]]:
    if retained is None:
        return {}
    if not isinstance(retained, Mapping):
        raise UnsupportedError("retained_heads")
    for heads in retained.values():
        if not isinstance(heads, list) or not all(type(head) is int for head in heads):
            raise UnsupportedError("retained_heads")
    return dict(retained)


def _heads_left(retained: list[int], heads: int, kv_heads: int) -> tuple[int, int]:
    """Return the number of heads and of key heads after pruning."""
    in_order = sorted(set(retained)) == retained
    if not retained or not in_order or retained[0] < 0 or retained[-1] >= heads:
        raise UnsupportedError("retained_heads")
    groups = Counter(head * kv_heads // heads for head in retained)
    if len(set(groups.values())) > 1:
        raise UnsupportedError("retained_heads of groups that differ in size")
    return len(retained), len(groups)


def _only(section: Settings, keys: Iterable[str]) -> None:
    """Refuse a section that has another key, or lacks one."""
    if differing := sorted(section.keys() ^ set(keys)):
        raise UnsupportedError(f"setting {differing[0]}")


def _section(settings: Settings, key: str) -> Settings:
    section = settings[key]
    if not isinstance(section, Mapping):
        raise UnsupportedError(f"setting {key}")
    return section


def _size(settings: Settings, key: str, most: int = MAX_SIZE) -> int:
    size = settings[key]
    if type(size) is not int or not 1 <= size <= most:
        raise UnsupportedError(f"setting {key}")
    return size


def _optional_size(settings: Settings, key: str, most: int = MAX_SIZE) -> int | None:
    return None if settings.get(key) is None else _size(settings, key, most)


def _number(settings: Settings, key: str, above: float = 0) -> float:
    number = settings[key]
    if type(number) not in (int, float) or not above < number < float("inf"):
        raise UnsupportedError(f"setting {key}")
    return float(number)


def _switch(settings: Settings, key: str) -> bool:
    switch = settings[key]
    if type(switch) is not bool:
        raise UnsupportedError(f"setting {key}")
    return switch


def _one_of(value: Any, known: Iterable[T], noun: str) -> T:
    for name in known:
        if value == name and type(value) is type(name):
            return name
    raise UnsupportedError(f"{noun} {value!r}")
