"""Division by what may be zero."""

import numpy as np

from crowdsweep.arrays import normalised_rows, ratio


def test_a_ratio_says_what_it_is_at_zero() -> None:
    part, whole = np.array([[1.0, 2.0], [0.0, 0.0]]), np.array([[4.0], [0.0]])
    np.testing.assert_array_equal(ratio(part, whole, at_zero=0.5), [[0.25, 0.5], [0.5, 0.5]])
    np.testing.assert_array_equal(ratio(part, whole, at_zero=np.array([7.0, 8.0])), [[0.25, 0.5], [7.0, 8.0]])


def test_rows_are_normalised_along_the_last_axis_and_empty_ones_are_uniform() -> None:
    table = np.array([[[1.0, 3.0], [0.0, 0.0]], [[0.0, 2.0], [5.0, 5.0]]])
    expected = [[[0.25, 0.75], [0.5, 0.5]], [[0.0, 1.0], [0.5, 0.5]]]
    np.testing.assert_array_equal(normalised_rows(table), expected)
    assert normalised_rows(np.empty((0, 3))).shape == (0, 3)


def test_an_empty_row_becomes_what_the_caller_says() -> None:
    table = np.array([[1, 3], [0, 0]])
    np.testing.assert_array_equal(normalised_rows(table, at_zero=0.0), [[0.25, 0.75], [0.0, 0.0]])
    instead = np.array([[0.5, 0.5], [0.9, 0.1]])
    np.testing.assert_array_equal(normalised_rows(table, at_zero=instead), [[0.25, 0.75], [0.9, 0.1]])
