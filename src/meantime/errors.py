"""The one family of errors. Each message says what was given, what was expected and what to do."""


class MeantimeError(ValueError):
    """Something that was given to Meantime cannot be used; the message says what would be."""


class ImageError(MeantimeError):
    """One image cannot be read. A run over many images reports it and goes on."""


class MissingExtraError(MeantimeError):
    """A feature needs a package that the default install leaves out."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs the extra {extra!r}: pip install 'meantime[{extra}]'")
