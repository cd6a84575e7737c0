"""What the suite relies on: an array of a wrong shape or type is noticed wherever shapes are checked."""

import jaxtyping
import numpy as np
import pytest

from crowdsweep.models._em import winners
from crowdsweep.testing.shapes import check_shapes, checked_shapes


@pytest.mark.parametrize("wrong", [np.ones(3), np.ones((2, 3), dtype=np.int32), [[1.0, 2.0]]], ids=str)
def test_a_wrong_array_is_noticed_where_shapes_are_checked(wrong) -> None:
    with checked_shapes(), pytest.raises(jaxtyping.TypeCheckError):
        winners(wrong)


@pytest.mark.unchecked
def test_elsewhere_nothing_is_compared() -> None:
    check_shapes(False)
    assert winners(np.ones((2, 2), dtype=np.int32)).tolist() == [[0.5, 0.5], [0.5, 0.5]]
