"""The description of the API is true: requests made from it, valid and not, get the answers that it declares."""

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from parts import running
from schemathesis.checks import CHECKS
from toy import ToyEncoder

from meantime.serve import create_app

app = create_app(encoder=ToyEncoder())
app.state.service.close()
schema = schemathesis.openapi.from_dict(app.openapi())


@pytest.fixture(scope="module")
def url():
    with running(max_labels=20) as service:
        yield service.url


@schema.parametrize()
@settings(
    max_examples=15,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_answers_are_as_described(case, url):
    # What fits the description may still be no image, or base64 of nothing: a refusal is right then.
    case.call_and_validate(base_url=url, excluded_checks=CHECKS.get_by_names(["positive_data_acceptance"]))
