"""The weights that a model starts from."""

from collections.abc import Iterable

from torch import nn

Named = Iterable[tuple[str, nn.Parameter]]


def scaled(named: Named, layers: int) -> None:
    """Normal weights of variance 1 / fan-in, at the end of a residual branch over sqrt(2 N); biases zero.

    Learned positions start at the size of the sinusoids in whose place they stand, a mean square of 1/2.
    """
    for name, parameter in named:
        if name.endswith("bias"):
            nn.init.zeros_(parameter)
        elif name == "positions":
            nn.init.normal_(parameter, std=0.5**0.5)
        elif parameter.dim() == 2 and name != "embedding":
            std = parameter.shape[1] ** -0.5
            if name.endswith(("attention.out.weight", "feed_forward.down.weight")):
                std /= (2 * layers) ** 0.5
            nn.init.normal_(parameter, std=std)


def xavier(named: Named) -> None:
    """Uniform weights within sqrt(6 / (fan-in + fan-out)) (Glorot and Bengio 2010, eq. 16); biases zero.

    Query, key and value are a matrix each. The word vectors stay as they were given; learned positions are a matrix
    like any other.
    """
    for name, parameter in named:
        if name.endswith("bias"):
            nn.init.zeros_(parameter)
        elif parameter.dim() == 2 and name != "embedding":
            for matrix in parameter.chunk(3 if name.endswith("qkv.weight") else 1):
                bound = (6 / sum(matrix.shape)) ** 0.5
                nn.init.uniform_(matrix, -bound, bound)


def of_torch(named: Named, width: int) -> None:
    """What PyTorch's layers start from: a linear one uniform within 1 / sqrt(fan-in), bias too, a table N(0, 1).

    The linear layers are left as they were made. The word vectors stay as they were given: `embedding.std` of 1 is
    PyTorch's. A tied output's bias is that of a linear layer.
    """
    for name, parameter in named:
        if name == "positions":
            nn.init.normal_(parameter)
        elif name == "output_bias":
            nn.init.uniform_(parameter, -(width**-0.5), width**-0.5)
