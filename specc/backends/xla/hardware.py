"""What a target file's table [xla] tells XLA's compilers of a machine that is not here."""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import TYPE_CHECKING, Any, TypeVar

from specc.errors import TargetError, unknown
from specc.targets import Target

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Record = TypeVar("Record", bound="DataclassInstance")


@dataclass(frozen=True)
class Gpu:
    """Figures of an NVIDIA GPU that its kernels are chosen by.

    multiprocessors, and fp32_lanes of each; clock_ghz: the highest. l2_bytes: of all; shared_memory_bytes: of one
    multiprocessor; memory_bytes: as the driver counts them. source: the address they were taken from.
    """

    multiprocessors: int
    fp32_lanes: int
    clock_ghz: float
    l2_bytes: int
    shared_memory_bytes: int
    memory_bytes: int
    source: str


@dataclass(frozen=True)
class Hardware:
    """chip_config: libtpu's name for how the cores of a chip work together. gpu: None where it is not described.

    matrix_rows: rows that a product is padded to. cache_rows: caches have a multiple of so many.
    """

    chip_config: str = "default"
    matrix_rows: int = 1
    cache_rows: int = 1
    gpu: Gpu | None = None


def hardware_of(target: Target) -> Hardware:
    """What the target's file says for XLA. Raises TargetError: a key that is not known, missing or of another type."""
    table = dict(target.xla)
    if "gpu" in table:
        table["gpu"] = _record(Gpu, table["gpu"], f"target {target.name}: [xla.gpu]")
    return _record(Hardware, table, f"target {target.name}: [xla]")


def cache_rows(target: Target, rows: int) -> int:
    """The rows that caches get for at least `rows`."""
    multiple = hardware_of(target).cache_rows
    return -(-rows // multiple) * multiple


def _record(kind: type[Record], table: Any, where: str) -> Record:
    """`table` as a record, each value of its field's type; a whole number is a fraction, too."""
    if not isinstance(table, Mapping):
        raise TargetError(f"{where} must be a table, found {table!r}")
    known = {field.name: field for field in fields(kind)}
    for key, value in table.items():
        if key not in known:
            raise TargetError(f"{where}: {unknown('key', key, known)}")
        wanted: Any = known[key].type
        if not isinstance(value, (int, float) if wanted is float else wanted) or isinstance(value, bool):
            raise TargetError(f"{where}: {key!r} is {value!r}, which is of the wrong type")
    missing = [key for key, field in known.items() if field.default is MISSING and key not in table]
    if missing:
        raise TargetError(f"{where}: lacks {', '.join(missing)}")
    return kind(**table)
