"""A tiny CLIP, SigLIP and SigLIP 2 with random weights, as transformers saves them."""

import string

import torch
import transformers
from PIL import Image
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

SIZE = 32
WIDTH = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
# The end comes late: transformers takes an end token of 2 for the sign of an old configuration.
VOCABULARY = ["<pad>", "<s>", "<unk>", "</s>", *string.ascii_lowercase, *string.digits, ".", ",", "-"]


def tokenizer(kind):
    """Letter by letter; CLIP's puts a start and an end around, SigLIP's only an end."""
    fast = Tokenizer(models.WordLevel({token: i for i, token in enumerate(VOCABULARY)}, unk_token="<unk>"))
    fast.normalizer = normalizers.Lowercase()
    fast.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Split("", "isolated")])
    single = "<s> $A </s>" if kind == "clip" else "$A </s>"
    fast.post_processor = processors.TemplateProcessing(single=single, special_tokens=[("<s>", 1), ("</s>", 3)])
    names = ["input_ids", "attention_mask"] if kind == "clip" else ["input_ids"]
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=fast,
        pad_token="<pad>",
        eos_token="</s>",
        unk_token="<unk>",
        model_input_names=names,
        padding_side="right",
    )


def build(kind, **text):
    """Model, image processor and tokenizer."""
    torch.manual_seed(0)
    words = {
        "vocab_size": 64,
        "max_position_embeddings": 40 if kind == "clip" else 64,
        "bos_token_id": 1,
        "eos_token_id": 3,
    }
    words |= {"pad_token_id": 0} | WIDTH | text
    if kind == "clip":
        config = transformers.CLIPConfig(
            text_config=words, vision_config=WIDTH | {"image_size": SIZE, "patch_size": 8}, projection_dim=16
        )
        processor = transformers.CLIPImageProcessor(size={"shortest_edge": SIZE}, crop_size=SIZE)
        model = transformers.CLIPModel(config)
    elif kind == "siglip":
        config = transformers.SiglipConfig(
            text_config=words, vision_config=WIDTH | {"image_size": SIZE, "patch_size": 8}
        )
        processor = transformers.SiglipImageProcessor(size={"height": SIZE, "width": SIZE})
        model = transformers.SiglipModel(config)
    else:
        config = transformers.Siglip2Config(
            text_config=words, vision_config=WIDTH | {"patch_size": 8, "num_patches": 16}
        )
        processor = transformers.Siglip2ImageProcessor(patch_size=8, max_num_patches=16)
        model = transformers.Siglip2Model(config)
    with torch.no_grad():  # far from the initial values, so that a test sees them lost
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
        model.logit_scale.fill_(2.5)
        if kind != "clip":
            model.logit_bias.fill_(-3.25)
    return model.eval(), processor, tokenizer(kind)


def save(kind, directory, **text):
    for part in build(kind, **text):
        part.save_pretrained(directory)
    return directory


def photo(width=80, height=56, seed=0):
    """A smooth random picture."""
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.randint(0, 256, (7, 10, 3), dtype=torch.uint8, generator=generator).numpy()
    return Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)
