"""The initial weights of a model, by the methods of `model.init`."""

from torch import nn

from tinylm.model.settings import ModelSettings


def initialise(model: nn.Module, settings: ModelSettings, width: int) -> None:
    """Draw the initial weights of a model of width D; the embedding keeps its values.

    scaled: normal with variance 1 / fan-in; at the end of a residual branch the standard deviation
    is divided by sqrt(2 N). Biases are zero. Learned positions have the mean square of sinusoids,
    1/2.
    xavier: uniform within sqrt(6 / (fan-in + fan-out)) (Glorot and Bengio 2010, eq. 16), with
    queries, keys and values as one matrix each. This includes learned positions. Biases are zero.
    torch: PyTorch's defaults. Linear layers and biases are uniform within 1 / sqrt(fan-in), learned
    positions are N(0, 1).
    """
    for name, parameter in model.named_parameters():
        if name == "embedding":
            continue
        if settings.init == "scaled":
            _draw_scaled(name, parameter, settings.layers)
        elif settings.init == "xavier":
            _draw_xavier(name, parameter)
        else:
            _draw_as_torch(name, parameter, width)


def _draw_scaled(name: str, parameter: nn.Parameter, layers: int) -> None:
    if name.endswith("bias"):
        nn.init.zeros_(parameter)
    elif name == "positions":
        nn.init.normal_(parameter, std=0.5**0.5)
    elif parameter.dim() == 2:
        std = parameter.shape[1] ** -0.5
        if name.endswith(("attention.out.weight", "feed_forward.down.weight")):
            std = std / (2 * layers) ** 0.5
        nn.init.normal_(parameter, std=std)


def _draw_xavier(name: str, parameter: nn.Parameter) -> None:
    if name.endswith("bias"):
        nn.init.zeros_(parameter)
    elif parameter.dim() == 2:
        for matrix in parameter.chunk(3 if name.endswith("qkv.weight") else 1):
            bound = (6 / sum(matrix.shape)) ** 0.5
            nn.init.uniform_(matrix, -bound, bound)


def _draw_as_torch(name: str, parameter: nn.Parameter, width: int) -> None:
    """Draw only parameters outside torch's layers, which have drawn their own weights."""
    if name == "positions":
        nn.init.normal_(parameter)
    elif name == "output_bias":
        bound = width**-0.5
        nn.init.uniform_(parameter, -bound, bound)
