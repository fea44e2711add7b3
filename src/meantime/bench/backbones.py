"""The five backbones of the paper's runtime figure: their shapes, with random weights where none are at hand.

Time and memory do not depend on the weights. They do depend on the number of tokens, so the random models read class
names word by word.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from meantime.encoders import TorchEncoder, load_encoder
from meantime.encoders.catalogue import in_caches
from meantime.errors import MeantimeError
from meantime.extras import optional
from meantime.labels import TEMPLATE, imagenet_names

START, END = 49406, 49407  # CLIP's special tokens, the last of its vocabulary


@dataclass(frozen=True)
class Backbone:
    """A CLIP of a shape: what differs from ViT-B/32 in transformers' configuration, or a name of open_clip."""

    name: str
    hub: str | None = None  # the published model, taken if it lies in the cache
    text: Mapping[str, int] = field(default_factory=dict)
    vision: Mapping[str, int] = field(default_factory=dict)
    dim: int = 512
    open_clip: str | None = None


_WIDE = {"hidden_size": 768, "intermediate_size": 3072, "num_attention_heads": 12}
_LARGE = {"hidden_size": 1024, "intermediate_size": 4096, "num_attention_heads": 16, "num_hidden_layers": 24}
BACKBONES = {
    b.name: b
    for b in (
        Backbone("RN50", open_clip="RN50"),
        Backbone("RN101", open_clip="RN101"),
        Backbone("ViT-B/32", "openai/clip-vit-base-patch32"),
        Backbone("ViT-B/16", "openai/clip-vit-base-patch16", vision={"patch_size": 16}),
        Backbone("ViT-L/14", "openai/clip-vit-large-patch14", _WIDE, {"patch_size": 14, **_LARGE}, 768),
    )
}
DEFAULT = ("RN50", "RN101", "ViT-B/32", "ViT-B/16")  # ViT-L/14 takes minutes an image on a small machine


def backbones_named(names: list[str]) -> list[Backbone]:
    """Backbones by their names in the paper."""
    unknown = [name for name in names if name not in BACKBONES]
    if unknown:
        raise MeantimeError(f"there is no backbone {unknown[0]!r}; there are {', '.join(BACKBONES)}")
    return [BACKBONES[name] for name in names]


def make(backbone: Backbone) -> TorchEncoder:
    """The encoder in PyTorch on the CPU; a seed makes every process make the same one."""
    torch = optional("torch", f"the backbone {backbone.name}", "transformers")
    torch.manual_seed(0)
    if backbone.open_clip is not None:
        return _by_open_clip(backbone.open_clip)
    if backbone.hub is not None and f"hf:{backbone.hub}" in {info.name for info in in_caches()}:
        return cast(TorchEncoder, load_encoder(f"hf:{backbone.hub}", device="cpu"))
    transformers = optional("transformers", f"the backbone {backbone.name}", "transformers")
    config = config_of(backbone)
    size = int(config.vision_config.image_size)
    processor = transformers.CLIPImageProcessor(size={"shortest_edge": size}, crop_size=size)
    parts = (transformers.CLIPModel(config), processor, _word_by_word(transformers))
    return cast(TorchEncoder, load_encoder(*parts, device="cpu"))


def config_of(backbone: Backbone) -> Any:
    """Its shape as transformers writes it."""
    transformers = optional("transformers", f"the backbone {backbone.name}", "transformers")
    return transformers.CLIPConfig(
        text_config={"bos_token_id": START, "eos_token_id": END, "projection_dim": backbone.dim, **backbone.text},
        vision_config={"projection_dim": backbone.dim, **backbone.vision},
        projection_dim=backbone.dim,
    )


def _by_open_clip(name: str) -> TorchEncoder:
    open_clip = optional("open_clip", f"the backbone {name}", "open-clip")
    model = open_clip.create_model(name, pretrained=None)
    preprocess = open_clip.image_transform(model.visual.image_size, is_train=False)
    return cast(TorchEncoder, load_encoder(model, preprocess, open_clip.get_tokenizer(name), device="cpu"))


def _word_by_word(transformers: Any) -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    split = pre_tokenizers.BertPreTokenizer()
    texts = [TEMPLATE.replace("{}", name) for name in imagenet_names()]
    words = dict.fromkeys(word for text in texts for word, _ in split.pre_tokenize_str(text))
    vocabulary = {"<unk>": 0, **{word: i for i, word in enumerate(words, 1)}, "<start>": START, "<end>": END}
    fast = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    fast.pre_tokenizer = split
    fast.post_processor = processors.TemplateProcessing(
        single="<start> $A <end>", special_tokens=[("<start>", START), ("<end>", END)]
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=fast,
        unk_token="<unk>",
        bos_token="<start>",
        eos_token="<end>",
        pad_token="<end>",
        padding_side="right",
    )


def export_to(task: tuple[Backbone, str]) -> None:
    """Write a backbone as an ONNX directory, which is what runs best on a CPU."""
    from meantime.export import export

    backbone, directory = task
    export(make(backbone), Path(directory))
