"""Columns that are not numbers: the user's DataFrame goes in and comes out."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
import torch
from tests.pipelines import normal, random_linear

import cfopt
from cfopt.errors import InputError
from cfopt.pipeline import Columns, Function
from cfopt.problems import Finite
from cfopt.testing import PredictorContract

CITIES = ("Rome", "Milan", "Turin")
#: temp, city, holiday, people: 6 features.
PLANS = np.eye(4)


def _frame(rows: int = 12, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "temp": rng.normal(size=rows),
            "city": pd.Categorical(rng.choice(CITIES, rows), categories=CITIES),
            "holiday": rng.random(rows) < 0.5,
            "people": rng.integers(0, 4, rows),
        },
        index=[f"day {k}" for k in range(rows)],
    )


def _features(**more: object) -> cfopt.Features:
    given = {"categories": {"city": CITIES}, "integer": ["people"], "lower": {"people": 0}}
    return cfopt.Features(**(given | {"upper": {"people": 3}} | more))


@pytest.fixture
def pipeline() -> cfopt.Pipeline:
    return cfopt.Pipeline(random_linear(6, 4, seed=1, bias=1.0), Finite(PLANS))


def test_a_frame_is_the_same_after_encoding_and_decoding() -> None:
    frame = _frame().reset_index(drop=True).assign(size=np.float32(1.5), word="a")
    columns = Columns.of(frame)
    assert columns.categories == {"city": CITIES, "word": ("a",)}
    encoded = columns.encode(frame)
    assert encoded.shape == (12, 8)
    expected = np.array([[city == one for one in CITIES] for city in frame["city"]])
    np.testing.assert_array_equal(encoded[:, 1:4], expected)
    pd.testing.assert_frame_equal(columns.decode(encoded), frame)


def test_a_number_that_is_not_whole_stays_so_in_a_column_of_whole_numbers() -> None:
    columns = Columns.of(pd.DataFrame({"people": [1, 2]}))
    assert columns.decode(np.array([[1.5], [2.0]]))["people"].tolist() == [1.5, 2.0]


def test_a_value_that_no_category_has_is_refused_with_the_nearest_one(
    pipeline: cfopt.Pipeline,
) -> None:
    frame = _frame().astype({"city": object})
    frame.loc["day 3", "city"] = "Rom"
    need = r"'city' needs one of Rome, Milan or Turin; row 3 has 'Rom'. Did you mean 'Rome'\?"
    with pytest.raises(InputError, match=need):
        cfopt.explain(frame, pipeline, cfopt.Epsilon(0.1), features=_features())


def test_text_without_categories_is_refused_with_its_remedy(pipeline: cfopt.Pipeline) -> None:
    with pytest.raises(InputError, match=r"'city' needs numbers.*categories=\{'city'"):
        cfopt.explain(_frame(), pipeline, cfopt.Epsilon(0.1))


def test_a_missing_value_rejects_its_row_alone(pipeline: cfopt.Pipeline) -> None:
    frame = _frame()
    frame.loc["day 1", "city"] = None
    e = cfopt.explain(frame, pipeline, cfopt.Epsilon(0.1), features=_features())
    rejected = [str(status) == "rejected" for status in e.status]
    assert rejected == [label == "day 1" for label in frame.index]
    assert pd.isna(e.frame_before.loc["day 1", "city"])


@pytest.mark.parametrize(
    ("given", "need"),
    [
        ({"names": ["temp", "town"]}, "no column 'city'"),
        ({"names": ["temp", "city"], "only_increase": ["city"]}, "have no order"),
        ({"names": ["city=Rome", "city"]}, "both called 'city=Rome'"),
        ({"categories": {"city": "Rome"}}, "needs a list"),
        ({"categories": {"city": ["Rome", "Rome"]}}, "none twice"),
        ({"names": ["temp", "city"], "upper": {"city=Roma": 0}}, "Did you mean 'city=Rome'"),
    ],
)
def test_categories_that_contradict_are_refused(given: dict[str, object], need: str) -> None:
    with pytest.raises(InputError, match=need):
        cfopt.Features(**({"categories": {"city": CITIES}} | given))


def test_what_is_said_of_a_column_holds_for_each_of_its_values() -> None:
    features = cfopt.Features(
        ["temp", "city", "wind"],
        scale=[1.0, 2.0, 3.0],
        lower=-5.0,
        immutable=["city"],
        upper={"city=Turin": 0, 2: 9.0},
        categories={"city": CITIES},
    )
    assert features.labels(5) == ("temp", "city=Rome", "city=Milan", "city=Turin", "wind")
    assert features.scales == (1.0, 2.0, 2.0, 2.0, 3.0)
    limits = features.limits(5)
    assert limits.groups == ((1, 2, 3),)
    assert limits.immutable.tolist() == [False, True, True, True, False]
    assert limits.lower.tolist() == [-5.0, 0.0, 0.0, 0.0, -5.0]
    assert limits.upper.tolist() == [np.inf, 1.0, 1.0, 0.0, 9.0]


def test_answers_are_as_near_as_brute_force_over_all_values(pipeline: cfopt.Pipeline) -> None:
    """For each city, holiday and number of people, only temp is left: an interval."""
    frame, features = _frame(), _features(scale=[1.0, 0.5, 1.0, 2.0])
    columns = Columns.of(frame)
    x0 = columns.encode(frame)
    weight = pipeline.predictor.weight.detach().numpy()
    bias = pipeline.predictor.bias.detach().numpy()
    factual = (x0 @ weight.T + bias).argmin(1)
    wanted = (factual + 1) % 4
    e = cfopt.explain(
        frame, pipeline, cfopt.Absolute(torch.from_numpy(PLANS[wanted])), features=features
    )
    scale = np.array([1.0, 0.5, 0.5, 0.5, 1.0, 2.0])
    for row in range(len(frame)):
        best = np.inf
        for city, holiday, people in itertools.product(range(3), range(2), range(4)):
            rest = np.array([0.0, *np.eye(3)[city], holiday, people])
            # (w_wanted - w_other) (rest + temp e_0) + b <= 0 for every other plan
            d = weight[wanted[row]] - weight
            free = d @ rest + bias[wanted[row]] - bias
            low, high = -np.inf, np.inf
            for slope, level in zip(d[:, 0], free, strict=True):
                if slope > 0:
                    high = min(high, -level / slope)
                elif slope < 0:
                    low = max(low, -level / slope)
                elif level > 0:
                    low, high = np.inf, -np.inf
            if low <= high:
                moved = rest - x0[row]
                moved[0] = np.clip(x0[row, 0], low, high) - x0[row, 0]
                best = min(best, float(((moved / scale) ** 2).sum()))
        assert float(e.loss[row]) == pytest.approx(best, rel=1e-5)
    assert e.optimal.all()


def test_an_explanation_speaks_of_the_columns(pipeline: cfopt.Pipeline) -> None:
    frame = _frame()
    e = cfopt.explain(frame, pipeline, cfopt.Epsilon(0.5), features=_features())
    assert e.valid.all()
    pd.testing.assert_frame_equal(e.frame_before, frame)
    assert e.frame.dtypes.tolist() == frame.dtypes.tolist()
    wide, table = e.to_dataframe(), e.table()
    assert wide["city after"].tolist() == e.frame["city"].tolist()
    moved = frame.index[frame["city"] != e.frame["city"]]
    assert len(moved)
    cities = table[table["feature"] == "city"].set_index("row")
    assert cities["after"].to_dict() == e.frame["city"][moved].to_dict()
    assert cities["change"].isna().all()
    assert set(table["feature"]) <= set(frame.columns)
    row = frame.index.get_loc(moved[0])
    words = f"city: {frame['city'].iloc[row]} -> {e.frame['city'].iloc[row]}"
    assert words in e[row].summary()


def test_columns_are_kept_in_json(pipeline: cfopt.Pipeline) -> None:
    e = cfopt.explain(_frame(), pipeline, cfopt.Epsilon(0.5), features=_features())
    read = cfopt.Explanation.from_json(e.to_json())
    pd.testing.assert_frame_equal(read.frame, e.frame)
    assert read.features == e.features
    assert '"city": "Milan"' in e.to_json()


def test_some_values_of_a_category_can_be_ruled_out() -> None:
    frame = _frame().query("city != 'Turin'")
    predictor = random_linear(6, 4, seed=1, bias=1.0)
    predictor.columns = Columns.of(frame)
    pipeline = cfopt.Pipeline(predictor, Finite(PLANS))
    held = ["temp", "holiday", "people"]
    moved = frame.assign(city=pd.Categorical(["Turin"] * len(frame), categories=CITIES))
    wish = cfopt.Absolute(pipeline.decide(moved))
    free = cfopt.explain(frame, pipeline, wish, features=cfopt.Features(immutable=held))
    there = (free.frame["city"] == "Turin").to_numpy()
    assert free.valid.all()
    assert there.any()
    some = cfopt.Features(immutable=held, categories={"city": ["Rome", "Milan"]})
    e = cfopt.explain(frame, pipeline, wish, features=some)
    assert "Turin" not in set(e.frame["city"][e.valid.numpy()])
    others = cfopt.Features(categories={"city": ["Rome", "Paris"]})
    with pytest.raises(InputError, match="no value 'Paris'"):
        cfopt.explain(frame, pipeline, wish, features=others)


def test_a_function_is_called_with_frames_of_the_types_it_knows() -> None:
    frame = _frame()
    seen: list[pd.DataFrame] = []

    def costs(given: pd.DataFrame) -> np.ndarray:
        seen.append(given)
        warm = given["temp"] + (given["city"] == "Rome")
        return np.stack([warm, -warm, given["people"], 0 * warm], axis=1)

    pipeline = cfopt.Pipeline(Function(costs, like=frame), Finite(PLANS))
    found = pipeline.decide(frame)
    assert seen[-1].dtypes.tolist() == frame.dtypes.tolist()
    expected = np.asarray(costs(frame), dtype=float).argmin(1)
    assert found.argmax(1).tolist() == expected.tolist()


def _of_frames(given: pd.DataFrame) -> np.ndarray:
    warm = given["temp"] + (given["city"] == "Rome")
    return np.stack([warm, -warm, given["people"]], axis=1)


class TestFunctionOfFrames(PredictorContract):
    def predictor(self) -> Function:
        return Function(_of_frames, like=_frame())

    def contexts(self) -> torch.Tensor:
        columns = self.predictor().columns
        assert columns is not None
        return torch.from_numpy(columns.encode(_frame()[:4]))


class TestFunctionOfArrays(PredictorContract):
    def predictor(self) -> Function:
        return Function(lambda x: np.floor(x @ np.arange(6.0).reshape(3, 2)))

    def contexts(self) -> torch.Tensor:
        return normal(4, 3)


def test_a_value_is_read_off_its_numbers_and_missing_where_one_of_them_is() -> None:
    frame = pd.DataFrame(
        {
            "load": [1.5, 2.5],
            "city": pd.Categorical(["Rome", "Turin"], categories=CITIES),
            "open": [True, False],
        }
    )
    columns = Columns.of(frame)
    encoded = columns.encode(frame)
    expected = [{"load": 1.5, "city": "Rome", "open": True}]
    expected += [{"load": 2.5, "city": "Turin", "open": False}]
    assert columns.records(encoded) == expected
    nothing = {"load": None, "city": None, "open": None}
    for place in range(encoded.shape[1]):
        lost = encoded[:1].copy()
        lost[0, place] = np.nan
        name = next(
            n for n, p in zip(columns.names, columns.layout.places, strict=True) if place in p
        )
        assert columns.records(lost) == [expected[0] | {name: nothing[name]}]
