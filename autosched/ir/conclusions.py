"""What a prover has concluded: for as long as ranges and facts are the same, and beyond."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

from autosched.ir.expr import Expr
from autosched.ir.poly import Poly
from autosched.ir.witness import Witness


@dataclass(slots=True)
class Conclusions:
    """Results under the present ranges and facts. A proof cut short may succeed another time, so results found
    inside proofs are kept apart."""

    polys: dict[Expr, Poly] = field(default_factory=dict)
    polys_in_proofs: dict[Expr, Poly] = field(default_factory=dict)
    simple: dict[Expr, Expr] = field(default_factory=dict)
    proven: set[Poly] = field(default_factory=set)
    #: (polynomial, whether facts were used) -> how deep inside proofs the shallowest attempt was
    unproven: dict[tuple[Poly, bool], int] = field(default_factory=dict)
    #: inside the present proof: (polynomial, whether facts are used, depth) -> answer, steps and effort it took
    tried: dict[tuple[Poly, bool, int], tuple[bool, int, int]] = field(default_factory=dict)
    #: variables -> the number of what is known of them
    surroundings: dict[frozenset[Expr], int] = field(default_factory=dict)
    #: inside the present question: (atom, variable, whether it is the largest, depth) -> its value at that end
    ends: dict[tuple[Expr, Expr, bool, int], Poly | None] = field(default_factory=dict)
    #: atom -> its smallest value if that is a known number, else -1
    least: dict[Expr, int] = field(default_factory=dict)
    #: variable -> those that its bounds mention
    named: dict[Expr, frozenset[Expr]] = field(default_factory=dict)
    #: assignments in which all that is known holds, made when first needed
    witnesses: list[Witness] | None = None


#: Steps for analyzers that live as long as the process or their user likes.
UNLIMITED = 2**62


@dataclass(slots=True)
class Tables:
    """Answers that several lowerings may have in common, those of one sketch's candidates for instance, and the steps
    that each took."""

    numbers: dict[object, int] = field(default_factory=dict)
    new_number: Iterator[int] = field(default_factory=count)
    proofs: dict[tuple[Poly, int], bool] = field(default_factory=dict)
    polys: dict[tuple[Expr, int], Poly] = field(default_factory=dict)
    simple: dict[tuple[Expr, int], Expr] = field(default_factory=dict)
    costs: dict[tuple[object, int], int] = field(default_factory=dict)

    @property
    def are_empty(self) -> bool:
        return not (self.proofs or self.polys or self.simple)

    def clear(self) -> None:
        for kept in (self.numbers, self.proofs, self.polys, self.simple, self.costs):
            kept.clear()


class Memory:
    """Answers to questions from outside a proof, kept when ranges and facts change.

    An answer depends only on what is known of the variables that the question mentions, directly or
    through their ranges and facts: the question's surroundings, which have a number. Passes ask the
    same question in the same surroundings again and again.
    """

    #: Steps that all questions together may take, unless more are given. Programs take some thousands at most, but for
    #: those that are long, and for indices or schedules of dozens of operations one on the other.
    STEPS = 40_000
    #: Steps that are left when questions begin to get less of them, and what each gets at least.
    LITTLE, LEAST = 20_000, 3

    def __init__(self, steps: int = STEPS, tables: Tables | None = None) -> None:
        """With `tables`, what others have found counts as if it were found anew."""
        self.left = steps
        self.tables = Tables() if tables is None else tables
        self.numbers, self.proofs = self.tables.numbers, self.tables.proofs
        self.polys, self.simple = self.tables.polys, self.tables.simple
        self._asked: set[tuple[object, int]] | None = None if tables is None else set()

    def allowed(self, most: int) -> int:
        """The steps that the next question may take, which needs no more than `most`."""
        return most if self.left >= self.LITTLE else max(self.LEAST, most * self.left // self.LITTLE)

    def recalled(self, question: tuple[object, int]) -> None:
        """The answer was in a table: somebody has to have found it, at least once in each lowering."""
        if self._asked is not None and question not in self._asked:
            self._asked.add(question)
            self.left -= self.tables.costs.get(question, 0)

    def found(self, question: tuple[object, int], left: int) -> None:
        """The answer took the steps since so many were left."""
        if self._asked is not None:
            self._asked.add(question)
            if left > self.left:
                self.tables.costs[question] = left - self.left

    def clear(self) -> None:
        """Remember nothing."""
        self.tables.clear()


class Answers:
    """What the candidates of one sketch have in common, as long as they may share it."""

    #: Answers after which they begin anew: a search lowers thousands of candidates.
    MOST = 50_000

    def __init__(self) -> None:
        self.are_shared = True
        self._tables = Tables()

    def lend(self) -> Tables | None:
        """The tables for one more candidate; None where it has to find all by itself."""
        if len(self._tables.polys) + len(self._tables.proofs) + len(self._tables.simple) > self.MOST:
            self._tables = Tables()
        return self._tables if self.are_shared else None
