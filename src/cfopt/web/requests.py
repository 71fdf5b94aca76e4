"""What may be asked over HTTP: plain numbers, names and images, nothing that is loaded or run."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    FiniteFloat,
    StrictBool,
    StrictInt,
    Tag,
    model_validator,
)

#: The most numbers that a list may have.
_MANY = 100_000
Name = Annotated[str, Field(min_length=1, max_length=200)]
Pipeline = Annotated[
    str, Field(min_length=1, max_length=200, description="The name of one of /api/pipelines.")
]
Row = Annotated[StrictInt, Field(ge=0, le=10**9)]
Cell = Annotated[
    list[Annotated[StrictInt, Field(ge=0, le=10**6)]], Field(min_length=2, max_length=2)
]
#: A place of a route: row and column on a map or grid, else its name.
Place = Annotated[
    Annotated[Cell, Tag("cell")] | Annotated[Name, Tag("named")],
    Discriminator(lambda given: "named" if isinstance(given, str) else "cell"),
]
Numbers = Annotated[list[FiniteFloat], Field(max_length=_MANY)]


class _Asked(BaseModel):
    """Unknown keys are mistakes, and reported."""

    model_config = ConfigDict(extra="forbid")


def _one_of(model: BaseModel, *names: str) -> None:
    given = [name for name in names if getattr(model, name) is not None]
    if len(given) != 1:
        among = ", ".join(names[:-1]) + f" and {names[-1]}"
        raise ValueError(f"exactly one of {among} is needed, got {' and '.join(given) or 'none'}")


class Context(_Asked):
    """A context: its numbers, an image, a stored one, or the answer of a search."""

    values: Numbers | None = Field(None, description="One number for each feature of a table.")
    image: str | None = Field(
        None,
        description="A PNG, JPEG or WebP in base64; one of the map's own size is used as it is.",
    )
    row: Row | None = Field(None, description="The number of a stored context, from 0.")
    task: Name | None = Field(
        None, description="The id of a search: its answer, exactly as it was found."
    )

    @model_validator(mode="after")
    def _check(self) -> Context:
        _one_of(self, "values", "image", "row", "task")
        return self


class Wanted(_Asked):
    """A decision by its route, or what the pipeline decides in a stored context."""

    path: Annotated[list[Place], Field(min_length=1, max_length=_MANY)] | None = Field(
        None,
        description="The places from start to goal: [row, column] on maps and grids, else names.",
    )
    row: Row | None = Field(None, description="The stored context whose decision is meant.")

    @model_validator(mode="after")
    def _check(self) -> Wanted:
        _one_of(self, "path", "row")
        return self


def _form(given: Any) -> str:
    return "decision" if isinstance(given, list) else "wanted"


Alternative = Annotated[
    Annotated[Numbers, Tag("decision")] | Annotated[Wanted, Tag("wanted")], Discriminator(_form)
]


#: An entry of a decision: its name or its number.
Entry = Annotated[
    Annotated[Row, Tag("number")] | Annotated[Name, Tag("name")],
    Discriminator(lambda given: "name" if isinstance(given, str) else "number"),
]
Entries = Annotated[list[Entry], Field(min_length=1, max_length=_MANY)]


class Counted(_Asked):
    """How many of some entries."""

    count: Row
    of: Entries


class Condition(_Asked):
    """A linear condition on a decision."""

    coefficients: Annotated[list[tuple[Entry, FiniteFloat]], Field(min_length=1, max_length=_MANY)]
    lower: FiniteFloat | None = None
    upper: FiniteFloat | None = None


class Wish(BaseModel):
    """A wish that leaves the decision open, in place of an alternative."""

    uses: Entries | None = Field(
        None, description="Entries that the decision takes, by name or number."
    )
    avoids: Entries | None = Field(None, description="Entries that it does not take.")
    at_least: list[Counted] | None = Field(
        None, description='How many of some entries it takes at least: {"count": 2, "of": [...]}.'
    )
    at_most: list[Counted] | None = Field(None, description="The same, at most.")
    conditions: list[Condition] | None = Field(
        None,
        description='Sums of entries within limits: {"coefficients": [[entry, number], ...], '
        '"lower": 1, "upper": 2}.',
    )

    def wish(self) -> dict[str, Any]:
        """The wish as plain values; empty without one."""
        return {
            key: value
            for key, value in self.model_dump(include=set(Wish.model_fields)).items()
            if value is not None
        }


class Question(Wish):
    """What is asked: a kind of question with its settings, such as the epsilon of epsilon.

    Which kinds there are, and what they can be given, is known to the workers alone, since
    criteria may be the user's own. In place of an alternative it may have a wish.
    """

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, FiniteFloat | StrictBool | Name]

    kind: Name = Field(
        description="One of a pipeline's questions. When would the alternative have beaten the "
        "decision (relative), or all others (absolute)? When would the decision have been clearly "
        "wrong (epsilon, with the key epsilon: by what fraction it should lose)?"
    )
    alternative: Alternative | None = Field(
        None,
        description='A decision as a number for each column, {"path": [[row, column], ...]} for a '
        'route on a map or grid, {"path": [name, ...]} for one in a network, or {"row": k} for '
        "what is decided in a stored context.",
    )
    margin: FiniteFloat = Field(
        0.0, description="The fraction of its value by which the alternative must win."
    )
    options: int = Field(
        1, ge=1, le=10, description="How many answers that differ in kind are looked for, at most."
    )


class Ranges(_Asked):
    """What may change in this search, on top of what the pipeline allows."""

    locked: Annotated[list[Name], Field(max_length=10_000)] = Field(
        default_factory=list, description="Features that stay as they are."
    )
    lower: dict[str, FiniteFloat] = Field(default_factory=dict, description="Least values.")
    upper: dict[str, FiniteFloat] = Field(default_factory=dict, description="Largest values.")
    max_changes: int | None = Field(
        default=None,
        ge=1,
        description="How many features may change at most; a category counts once.",
    )


class Decide(_Asked):
    """What would be decided here?"""

    pipeline: Pipeline
    context: Context
    familiar: StrictBool = Field(
        False,
        description="Also say in `unlike` whether the context is of another kind than those that "
        "the models were made for.",
    )

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"pipeline": "terrain", "context": {"row": 0}}]},
    )


class Explain(_Asked):
    """When would it have been otherwise?"""

    pipeline: Pipeline
    context: Context
    question: Question
    plausible: StrictBool | None = Field(
        None,
        description="Search among what the generative model makes; the default if there is one.",
    )
    features: Ranges = Field(default_factory=Ranges)
    prices: StrictBool = Field(
        False, description="Also say what the costs themselves would have had to be."
    )
    robust: Annotated[FiniteFloat, Field(gt=0, le=1e6)] | None = Field(
        None,
        description="The answer has to hold in every context within this distance of it, in units "
        "of the features' scales.",
    )
    time_limit: Annotated[FiniteFloat, Field(gt=0)] | None = Field(
        None,
        description="Seconds after which the search ends with the best that it has found; by "
        "default what the pipeline's description says.",
    )
    seconds: Annotated[FiniteFloat, Field(gt=0)] | None = Field(
        None,
        description="A shorter limit than the server's own, at which a search is stopped and its "
        "answer lost.",
    )

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "pipeline": "terrain",
                    "context": {"row": 0},
                    "question": {"kind": "absolute", "alternative": {"row": 21}},
                    "plausible": True,
                },
                {
                    "pipeline": "grid",
                    "context": {"row": 3},
                    "question": {"kind": "relative", "alternative": {"row": 5}, "margin": 0.02},
                    "features": {"locked": ["rain"], "upper": {"traffic": 2.5}},
                },
                {
                    "pipeline": "knapsack",
                    "context": {"row": 1},
                    "question": {"kind": "epsilon", "epsilon": 0.1},
                    "time_limit": 10,
                    "seconds": 20,
                },
            ]
        },
    )
