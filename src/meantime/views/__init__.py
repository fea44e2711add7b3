"""Views: the N pictures of an image that are encoded. Crops, AugMix crops, pictures from files."""

from meantime.views.boxes import pixel_hash, random_boxes
from meantime.views.crops import Places, Views, make_views
from meantime.views.files import file_views, join
from meantime.views.of import views_of
from meantime.views.spec import ViewSpec
from meantime.views.torch_crops import joined

__all__ = [
    "Places",
    "ViewSpec",
    "Views",
    "file_views",
    "join",
    "joined",
    "make_views",
    "pixel_hash",
    "random_boxes",
    "views_of",
]
