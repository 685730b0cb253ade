"""Tables of layers are read, checked and written; the built-in tables are those of the architectures."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foundation.errors import DataError
from hotline_dense import DenseError
from hotline_dense.architectures import ARCHITECTURES
from hotline_dense.catalogue import MODELS_FOLDER, ORIGINS, open_model, open_models
from hotline_dense.layers import Layers, read_layers, write_layers
from hotline_dense.tables import convert_log, estimate
from packages.dense.tests.unit.docs_tables import rows
from switch_harness.wording import mentions

HEAD = "layer,bytes,backward_us,forward_us\n"
MILLIONS = {
    "resnet50": 25.56, "resnet101": 44.55, "resnet152": 60.19, "vgg16": 138.36, "densenet201": 20.01,
    "inceptionv4": 42.7, "bert-base": 110, "bert-large": 335,
}  # fmt: skip
"""Parameters as published."""


def table(folder: Path, text: str, name: str = "mine.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_a_table_is_read_in_its_order(tmp_path: Path) -> None:
    layers = read_layers(table(tmp_path, f"{HEAD}in,4,10,5.5\nout,8,20.25,6\n"))
    assert layers.names == ("in", "out")
    assert layers.sizes.tolist() == [4, 8] and layers.bytes == 12
    assert layers.backward_us.tolist() == [10, 20.25] and layers.total_backward_us == 30.25
    assert layers.forward_us is not None and layers.forward_us.tolist() == [5.5, 6]
    sizes, ready = layers.sizes_and_ready_times()
    assert (sizes.tolist(), ready.tolist()) == ([8, 4], [20.25, 30.25])


def test_columns_may_be_in_any_order_and_unknown_columns_are_ignored(tmp_path: Path) -> None:
    layers = read_layers(table(tmp_path, "note,forward_us,backward_us,bytes,layer\nx,,1,2,a\ny,,3,4,b\n"))
    assert (layers.names, layers.sizes.tolist(), layers.forward_us) == (("a", "b"), [2, 4], None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("layer,bytes,backward_us\na,1,2\n", "has no column forward_us; expected layer, bytes"),
        (HEAD, "has no row"),
        (f"{HEAD}a,1,2,\n,1,2,\n", "line 3: column layer is empty; a name expected"),
        (f"{HEAD}a,1.5,2,\n", "line 2: column bytes is '1.5'; a whole number of bytes"),
        (f"{HEAD}a,-1,2,\n", "line 2: column bytes is '-1'"),
        (f"{HEAD}a,1,2,\nb,x,2,\n", "line 3: column bytes is 'x'"),
        (f"{HEAD}a,1,,\n", "line 2: column backward_us is empty; a time in µs"),
        (f"{HEAD}a,1,nan,\n", "line 2: column backward_us is 'nan'"),
        (f"{HEAD}a,1,-2,\n", "line 2: column backward_us is '-2'"),
        (f"{HEAD}a,1,1e10,\n", "line 2: column backward_us is '1e10'"),
        (f"{HEAD}a,1,2,3\nb,1,2,\n", "line 3: column forward_us is empty"),
        (f"{HEAD}a,1,2,\nb,1,2,\na,1,2,\n", "line 4: column layer is 'a' again"),
        ("", "is empty; a table of layers is CSV or Parquet"),
        (f"{HEAD}a,0,2,3\n", "all bytes are 0"),
        ("a;b\n1;2\n", "columns are separated by commas"),
    ],
)
def test_an_invalid_table_is_refused_with_the_line_and_the_reason(
    tmp_path: Path, text: str, message: str
) -> None:
    path = table(tmp_path, text)
    with pytest.raises(DataError, match=re.escape(str(path))) as error:
        read_layers(path)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("bytes", [1, -7], "row 2: column bytes is -7"),
        ("bytes", [1.0, 2.5], "row 2: column bytes is 2.5; a whole number"),
        ("bytes", [1, None], "row 2: column bytes is empty"),
        ("bytes", [[1], [2]], "a column of an unexpected type"),
        ("forward_us", [[1], [2]], "a column of an unexpected type"),
        ("backward_us", [1.0, float("inf")], "row 2: column backward_us is inf"),
        ("layer", ["a", "a"], "row 2: column layer is 'a' again"),
    ],
)
def test_parquet_has_kinds_and_rows(tmp_path: Path, column: str, values: list[object], message: str) -> None:
    path = tmp_path / "mine.parquet"
    valid = {"layer": ["a", "b"], "bytes": [1, 7], "backward_us": [1.0, 2.0], "forward_us": [1.0, 2.0]}
    pl.DataFrame({**valid, column: values}).write_parquet(path)
    with pytest.raises(DataError, match=re.escape(str(path))) as error:
        read_layers(path)
    assert message in str(error.value)


def test_whole_numbers_of_bytes_may_be_written_as_floats(tmp_path: Path) -> None:
    path = tmp_path / "mine.parquet"
    pl.DataFrame(
        {"layer": [1, 2], "bytes": [1.0, 7.0], "backward_us": [1, 2], "forward_us": [None, None]}
    ).write_parquet(path)
    layers = read_layers(path)
    assert (layers.names, layers.sizes.tolist(), layers.forward_us) == (("1", "2"), [1, 7], None)


_LAYER = st.tuples(st.text("abc.", min_size=1), st.integers(1, 2**40), st.floats(0, 1e9), st.floats(0, 1e9))


@given(
    st.lists(_LAYER, min_size=1, max_size=5, unique_by=lambda row: row[0]),
    st.booleans(),
    st.sampled_from([".csv", ".parquet"]),
)
def test_a_written_table_reads_back_equal(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[str, int, float, float]],
    full: bool,
    suffix: str,
) -> None:
    names, sizes, backward, forward = zip(*rows, strict=True)
    layers = Layers(names, np.array(sizes), np.array(backward), np.array(forward) if full else None)
    path = tmp_path_factory.mktemp("layers") / f"mine{suffix}"
    write_layers(layers, path)
    read_back = read_layers(path)
    assert read_back.names == layers.names and read_back.sizes.tolist() == layers.sizes.tolist()
    assert read_back.backward_us.tolist() == layers.backward_us.tolist()
    assert (None if read_back.forward_us is None else read_back.forward_us.tolist()) == (
        list(forward) if full else None
    )


def test_a_table_with_an_unknown_suffix_is_not_written(tmp_path: Path) -> None:
    layers = Layers(("a",), np.array([1]), np.array([1.0]))
    with pytest.raises(DataError, match=mentions("mine.txt", ".csv", ".parquet")):
        write_layers(layers, tmp_path / "mine.txt")
    assert list(tmp_path.iterdir()) == []


def test_the_tensors_of_a_module_are_merged_into_one_layer() -> None:
    names = ("a.weight", "a.bias", "b.norm.weight", "b.norm.bias", "block.1")
    together = Layers(names, np.arange(1, 6), np.arange(5.0), np.ones(5)).by_module()
    assert together.names == ("a", "b.norm", "block.1")
    assert (together.sizes.tolist(), together.backward_us.tolist()) == ([3, 7, 5], [1, 5, 4])
    assert together.forward_us is not None and together.forward_us.tolist() == [2, 2, 1]


# -- built-in models


def parameter_counts() -> dict[str, int]:
    """Return the number of parameters of each model."""
    return {name: sum(tensor.values for tensor in tensors()) for name, tensors in ARCHITECTURES.items()}


def test_models_have_the_published_numbers_of_parameters() -> None:
    found = parameter_counts()
    assert set(found) == set(ORIGINS) == {*MILLIONS, "dlrm"}
    for name, millions in MILLIONS.items():
        assert found[name] / 1e6 == pytest.approx(millions, rel=0.005), name


@pytest.mark.parametrize("name", ORIGINS)
def test_tables_have_the_sizes_of_the_architectures(name: str) -> None:
    model, tensors = open_model(name), ARCHITECTURES[name]()
    assert model.layers.names == tuple(tensor.name for tensor in tensors)
    assert model.layers.sizes.tolist() == [4 * tensor.values for tensor in tensors]
    assert "(estimate)" in model.label if ORIGINS[name].is_estimate else "(" not in model.label


def test_models_have_the_documented_parameters_step_times_and_samples() -> None:
    """packages/dense/README.md: parameters, ms and samples of a step, and which models are estimates."""
    message = {
        name: (count, *re.findall(r"([\d.,]+) (?:ms|images|samples|×)", step), "**estimate**" in source)
        for name, (_, count, step, source) in rows("name", "variant").items()
    }
    parameters = parameter_counts()
    assert message == {
        name: (f"{parameters[name]:,}", f"{of.step_us / 1e3:.1f}", f"{of.batch:,}", of.is_estimate)
        for name, of in ORIGINS.items()
    }


@pytest.mark.parametrize("name", [name for name, origin in ORIGINS.items() if origin.is_estimate])
def test_an_estimate_is_a_published_step_split_by_arithmetic(name: str) -> None:
    model, made = open_model(name), estimate(name)
    assert model.layers.backward_us.tolist() == made.backward_us.tolist()
    assert model.layers.forward_us is not None and made.forward_us is not None
    assert model.layers.forward_us.tolist() == made.forward_us.tolist()
    whole = model.layers.total_backward_us + model.layers.forward_us.sum()
    assert whole == pytest.approx(model.step_us, rel=1e-5)
    assert model.layers.total_backward_us == pytest.approx(2 / 3 * model.step_us, rel=1e-5)
    work = np.array([tensor.multiply_adds for tensor in ARCHITECTURES[name]()])
    np.testing.assert_allclose(
        model.layers.backward_us / model.layers.total_backward_us, work / work.sum(), atol=1e-6
    )


def test_an_estimate_of_another_step_is_as_much_longer() -> None:
    short, long = open_model("bert-base"), open_model("bert-base", 2 * open_model("bert-base").step_us)
    np.testing.assert_allclose(long.layers.backward_us, 2 * short.layers.backward_us)
    assert long.layers.forward_us is not None and short.layers.forward_us is not None
    np.testing.assert_allclose(long.layers.forward_us, 2 * short.layers.forward_us)
    assert long.before_backward_us == pytest.approx(2 * short.before_backward_us)
    # What was measured stays as it was.
    assert open_model("vgg16", 1e6).layers.backward_us.sum() == open_model("vgg16").layers.backward_us.sum()


def test_a_log_of_the_authors_is_converted(tmp_path: Path) -> None:
    """The authors' log goes from the last tensor to the first."""
    tensors = ARCHITECTURES["vgg16"]()
    lines = [f"{i}.5,{4 * tensor.values}" for i, tensor in enumerate(reversed(tensors))]
    log = table(tmp_path, "\n".join(["what, it is", "1", str(len(lines)), *lines]), "vgg16.bk.log")
    layers = convert_log("vgg16", log)
    assert layers.names[-1] == "classifier.6.bias" and layers.backward_us[-1] == 0.5
    assert layers.sizes.tolist() == [4 * tensor.values for tensor in tensors]
    with pytest.raises(DenseError, match=mentions("resnet50's", "tensors")):
        convert_log("resnet50", log)


def test_third_party_tables_are_in_the_notice() -> None:
    notice = (MODELS_FOLDER / "NOTICE").read_text()
    for name, origin in ORIGINS.items():
        assert (f"{name}.csv" in notice) == (not origin.is_estimate)
    assert "additions.csv" in notice and "training-bottleneck" in notice
    assert "Apache License" in (MODELS_FOLDER / "LICENSE").read_text()


def test_a_users_table_needs_the_time_of_a_step(tmp_path: Path) -> None:
    full, short = table(tmp_path, f"{HEAD}a,1,20,10\n"), table(tmp_path, f"{HEAD}a,1,20,\n", "short.csv")
    assert open_model(str(full)).step_us == 30 and open_model(str(full), 50.0).before_backward_us == 30
    assert open_model(str(short), 50.0).step_us == 50
    with pytest.raises(DenseError, match=mentions("forward_us", "--step-ms")):
        open_model(str(short))
    with pytest.raises(DenseError, match=mentions("0.01 ms", "0.02 ms")):
        open_model(str(full), 10.0)
    with pytest.raises(DenseError, match="all times are 0"):
        open_model(str(table(tmp_path, f"{HEAD}a,1,0,0\n")))
    with pytest.raises(DenseError, match=mentions("resnet51", "resnet50")):
        open_model("resnet51")
    with pytest.raises(DataError, match=mentions("none.csv", "read")):
        open_model("none.csv")


def test_several_models_have_each_a_name(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    one, two = table(tmp_path, f"{HEAD}a,1,20,10\n"), table(tmp_path / "b", f"{HEAD}a,1,20,10\n")
    assert [model.name for model in open_models([str(one), "vgg16"])] == ["mine", "vgg16"]
    with pytest.raises(DenseError, match=mentions("mine", two)):
        open_models([str(one), str(two)])
    assert open_models([str(one)], 50.0)[0].step_us == 50
    with pytest.raises(DenseError, match=mentions("--step-ms", "0.05", 2)):
        open_models([str(one), "vgg16"], 50.0)
