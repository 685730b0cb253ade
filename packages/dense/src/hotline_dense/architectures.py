"""The tensors of well-known models, counted from their architectures: values and multiply-adds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class ParameterTensor:
    name: str
    values: int
    multiply_adds: float


@dataclass
class Builder:
    """A collector of tensors in the order of the forward pass; images are squares with sides of `side`."""

    tensors: list[ParameterTensor] = field(default_factory=list)

    def add(self, name: str, values: int, multiply_adds: float = 0.0) -> None:
        self.tensors.append(ParameterTensor(name, values, multiply_adds))

    def conv(self, name: str, inputs: int, outputs: int, kernel: tuple[int, int], side: int) -> None:
        """Add a convolution without bias whose output has `side`² positions."""
        values = inputs * outputs * kernel[0] * kernel[1]
        self.add(f"{name}.weight", values, values * side**2)

    def norm(self, name: str, channels: int, positions: int) -> None:
        self.add(f"{name}.weight", channels, channels * positions)
        self.add(f"{name}.bias", channels, channels * positions)

    def linear(self, name: str, inputs: int, outputs: int, positions: int = 1) -> None:
        self.add(f"{name}.weight", inputs * outputs, inputs * outputs * positions)
        self.add(f"{name}.bias", outputs)


def resnet(blocks: tuple[int, int, int, int]) -> list[ParameterTensor]:
    """Return ResNet v1.5 with bottlenecks (He et al. 2016) as in torchvision, 224², 1,000 classes."""
    net = Builder()
    net.conv("conv1", 3, 64, (7, 7), 112)
    net.norm("bn1", 64, 112**2)
    inputs, side = 64, 56
    for stage, (count, width) in enumerate(zip(blocks, (64, 128, 256, 512), strict=True), 1):
        for block in range(count):
            # In v1.5 the 3 × 3 convolution of a stage's first block halves the image.
            input_side, side = side, side // 2 if stage > 1 and block == 0 else side
            prefix = f"layer{stage}.{block}"
            net.conv(f"{prefix}.conv1", inputs, width, (1, 1), input_side)
            net.norm(f"{prefix}.bn1", width, input_side**2)
            net.conv(f"{prefix}.conv2", width, width, (3, 3), side)
            net.norm(f"{prefix}.bn2", width, side**2)
            net.conv(f"{prefix}.conv3", width, 4 * width, (1, 1), side)
            net.norm(f"{prefix}.bn3", 4 * width, side**2)
            if block == 0:
                net.conv(f"{prefix}.downsample.0", inputs, 4 * width, (1, 1), side)
                net.norm(f"{prefix}.downsample.1", 4 * width, side**2)
            inputs = 4 * width
    net.linear("fc", inputs, 1000)
    return net.tensors


def vgg16() -> list[ParameterTensor]:
    """Return VGG-16 with batch normalisation (torchvision's `vgg16_bn`), 224², 1,000 classes."""
    net = Builder()
    inputs, index, side = 3, 0, 224
    for width, count in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(count):
            net.conv(f"features.{index}", inputs, width, (3, 3), side)
            net.add(f"features.{index}.bias", width)
            net.norm(f"features.{index + 1}", width, side**2)
            inputs, index = width, index + 3  # convolution, normalisation, ReLU
        index, side = index + 1, side // 2  # pooling
    net.linear("classifier.0", 512 * 7 * 7, 4096)
    net.linear("classifier.3", 4096, 4096)
    net.linear("classifier.6", 4096, 1000)
    return net.tensors


def densenet201() -> list[ParameterTensor]:
    """Return DenseNet-201 (Huang et al. 2017): growth 32, blocks of 6, 12, 48, 32; 224², 1,000 classes."""
    net, growth = Builder(), 32
    net.conv("features.conv0", 3, 64, (7, 7), 112)
    net.norm("features.norm0", 64, 112**2)
    channels, side, blocks = 64, 56, (6, 12, 48, 32)
    for block, count in enumerate(blocks, 1):
        for layer in range(1, count + 1):
            prefix = f"features.denseblock{block}.denselayer{layer}"
            net.norm(f"{prefix}.norm1", channels, side**2)
            net.conv(f"{prefix}.conv1", channels, 4 * growth, (1, 1), side)
            net.norm(f"{prefix}.norm2", 4 * growth, side**2)
            net.conv(f"{prefix}.conv2", 4 * growth, growth, (3, 3), side)
            channels += growth
        if block < len(blocks):
            net.norm(f"features.transition{block}.norm", channels, side**2)
            net.conv(f"features.transition{block}.conv", channels, channels // 2, (1, 1), side)
            channels, side = channels // 2, side // 2
    net.norm("features.norm5", channels, side**2)
    net.linear("classifier", channels, 1000)
    return net.tensors


_Branch = tuple[tuple[int, tuple[int, int], int], ...]  # (outputs, kernel, side of the output) per layer
_1X1, _3X3, _1X7, _7X1, _1X3, _3X1 = (1, 1), (3, 3), (1, 7), (7, 1), (1, 3), (3, 1)


def inception_v4() -> list[ParameterTensor]:
    """Return Inception-v4 (Szegedy et al. 2017), 299², 1,000 classes, no auxiliary head."""
    net = Builder()
    _chain(net, "features.stem", 3, ((32, _3X3, 149), (32, _3X3, 147), (64, _3X3, 147)))
    _chain(net, "features.mixed_3a", 64, ((96, _3X3, 73),))
    _branches(
        net,
        "features.mixed_4a",
        160,
        ((64, _1X1, 73), (96, _3X3, 71)),
        ((64, _1X1, 73), (64, _1X7, 73), (64, _7X1, 73), (96, _3X3, 71)),
    )
    _chain(net, "features.mixed_5a", 192, ((192, _3X3, 35),))
    for number in range(4):
        _branches(
            net,
            f"features.inception_a{number}",
            384,
            ((96, _1X1, 35),),
            ((64, _1X1, 35), (96, _3X3, 35)),
            ((64, _1X1, 35), (96, _3X3, 35), (96, _3X3, 35)),
            ((96, _1X1, 35),),
        )
    _branches(
        net,
        "features.reduction_a",
        384,
        ((384, _3X3, 17),),
        ((192, _1X1, 35), (224, _3X3, 35), (256, _3X3, 17)),
    )
    for number in range(7):
        _branches(
            net,
            f"features.inception_b{number}",
            1024,
            ((384, _1X1, 17),),
            ((192, _1X1, 17), (224, _1X7, 17), (256, _7X1, 17)),
            ((192, _1X1, 17), (192, _7X1, 17), (224, _1X7, 17), (224, _7X1, 17), (256, _1X7, 17)),
            ((128, _1X1, 17),),
        )
    _branches(
        net,
        "features.reduction_b",
        1024,
        ((192, _1X1, 17), (192, _3X3, 8)),
        ((256, _1X1, 17), (256, _1X7, 17), (320, _7X1, 17), (320, _3X3, 8)),
    )
    for number in range(3):
        prefix = f"features.inception_c{number}"
        _branches(
            net,
            prefix,
            1536,
            ((256, _1X1, 8),),
            ((384, _1X1, 8),),
            ((384, _1X1, 8), (448, _3X1, 8), (512, _1X3, 8)),
            ((256, _1X1, 8),),
        )
        # The ends of two branches fork.
        for branch, channels in ((1, 384), (2, 512)):
            for fork, kernel in enumerate((_1X3, _3X1)):
                _chain(net, f"{prefix}.branch{branch}.fork{fork}", channels, ((256, kernel, 8),))
    net.linear("last_linear", 1536, 1000)
    return net.tensors


def _branches(net: Builder, name: str, inputs: int, *branches: _Branch) -> None:
    for number, branch in enumerate(branches):
        _chain(net, f"{name}.branch{number}", inputs, branch)


def _chain(net: Builder, name: str, inputs: int, convs: _Branch) -> None:
    for number, (outputs, kernel, side) in enumerate(convs):
        net.conv(f"{name}.{number}.conv", inputs, outputs, kernel, side)
        net.norm(f"{name}.{number}.bn", outputs, side**2)
        inputs = outputs


def bert(layers: int, hidden: int, sequence_length: int) -> list[ParameterTensor]:
    """Return BERT for pre-training (Devlin et al. 2019), 30,522 tokens, sequences of `sequence_length`."""
    # The decoder shares the embedding's weight, whose gradient is ready last; the decoder's multiply-adds are
    # counted at the decoder's bias.
    net, vocabulary_size = Builder(), 30_522
    net.add("bert.embeddings.word_embeddings.weight", vocabulary_size * hidden)
    net.add("bert.embeddings.position_embeddings.weight", 512 * hidden)
    net.add("bert.embeddings.token_type_embeddings.weight", 2 * hidden)
    net.norm("bert.embeddings.LayerNorm", hidden, sequence_length)
    for number in range(layers):
        prefix = f"bert.encoder.layer.{number}"
        for name in ("query", "key", "value"):
            net.linear(f"{prefix}.attention.self.{name}", hidden, hidden, sequence_length)
        # Scores and contexts, two products of length² × hidden, have no tensor: count them at value's bias.
        value_bias = net.tensors.pop()
        net.add(value_bias.name, value_bias.values, 2.0 * sequence_length**2 * hidden)
        net.linear(f"{prefix}.attention.output.dense", hidden, hidden, sequence_length)
        net.norm(f"{prefix}.attention.output.LayerNorm", hidden, sequence_length)
        net.linear(f"{prefix}.intermediate.dense", hidden, 4 * hidden, sequence_length)
        net.linear(f"{prefix}.output.dense", 4 * hidden, hidden, sequence_length)
        net.norm(f"{prefix}.output.LayerNorm", hidden, sequence_length)
    net.linear("bert.pooler.dense", hidden, hidden)
    net.linear("cls.predictions.transform.dense", hidden, hidden, sequence_length)
    net.norm("cls.predictions.transform.LayerNorm", hidden, sequence_length)
    net.add("cls.predictions.decoder.bias", vocabulary_size, vocabulary_size * hidden * sequence_length)
    net.linear("cls.seq_relationship", hidden, 2)
    return net.tensors


def dlrm() -> list[ParameterTensor]:
    """Return the dense part of NVIDIA's DLRM for Criteo: 13 numerical features and 26 embeddings of 128."""
    net = Builder()
    for number, (inputs, outputs) in enumerate(pairwise((13, 512, 256, 128))):
        net.linear(f"bottom_mlp.{2 * number}", inputs, outputs)
    # Dot products of 27 vectors in pairs, the 128 outputs of the bottom MLP, and one value of padding.
    for number, (inputs, outputs) in enumerate(pairwise((27 * 26 // 2 + 128 + 1, 1024, 1024, 512, 256, 1))):
        net.linear(f"top_mlp.{2 * number}", inputs, outputs)
    return net.tensors


ARCHITECTURES: dict[str, Callable[[], list[ParameterTensor]]] = {
    "resnet50": lambda: resnet(blocks=(3, 4, 6, 3)),
    "resnet101": lambda: resnet(blocks=(3, 4, 23, 3)),
    "resnet152": lambda: resnet(blocks=(3, 8, 36, 3)),
    "vgg16": vgg16,
    "densenet201": densenet201,
    "inceptionv4": inception_v4,
    "bert-base": lambda: bert(layers=12, hidden=768, sequence_length=128),
    "bert-large": lambda: bert(layers=24, hidden=1024, sequence_length=128),
    "dlrm": dlrm,
}
