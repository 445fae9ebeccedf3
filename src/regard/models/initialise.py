"""First weights: what lets a fresh Transformer train at once.

Matrices are Xavier-uniform, biases zero. Embeddings are drawn so that, after the √D scaling, each
component has variance 1 and a tied output layer starts with logits of variance about 1. With norms
first, what each sublayer adds is shrunk by √(2·layers), as in GPT-2, so that the sum over the depth
starts with the variance of its first term.
"""

from torch import nn

from regard.models.transformer import TransformerSpec


def initialise(model: nn.Module, spec: TransformerSpec) -> None:
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    # After the matrices: a tied output layer is an embedding first.
    for module in model.modules():
        if isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=spec.dim**-0.5 if spec.scale_embedding else 0.02)
    if spec.norm_first:
        for name, parameter in model.named_parameters():
            if name.endswith(("w_o.weight", "narrow.weight")):
                parameter.data.mul_((2 * spec.layers) ** -0.5)
