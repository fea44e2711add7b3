"""What all tests share: a busy machine is no failure, so Hypothesis sets no deadline."""

from hypothesis import settings

settings.register_profile("meantime", deadline=None)
settings.load_profile("meantime")
