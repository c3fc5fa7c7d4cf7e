import re
from pathlib import Path

import pytest

import perfkit as pk
from perfkit.errors import DataError, FormatError, SettingError
from perfkit.study.study import RESERVED, Assembly, Range, Study

KERNEL = "PK_REGION { PK_KEEP(step); }"


def test_space_is_the_product_in_order():
    study = Study(KERNEL, {"N": [1, 2], "stride": [1, 8]}, compilers=["gcc -O1"], flags=["-g", "-O3"], threads=[1, 2])
    space = list(study.configurations())
    assert study.count() == len(space) == 16
    assert [one.values for one in space[:4]] == [{"N": n, "stride": s} for n in (1, 2) for s in (1, 8)]
    assert space[0].flags == "-O1 -g"
    assert len({one.key(study.fingerprint()) for one in space}) == 16


def test_ranges_factors_and_dependent_dimensions():
    study = Study(KERNEL, {"S": {"from": 1, "to": 8192, "factor": 2}, "N": {"from": 2, "to": 8}}, where=["S < N"])
    assert study.count() == len([1 for s in (1, 2, 4) for n in range(2, 9) if s < n])
    dependent = Study(KERNEL, {"E": {"from": 2, "to": 8}, "I": "[4, 11, 64] if E > 4 else -1"})
    assert dependent.count() == 3 + 4 * 3


def test_papers_gather_space_has_3279_combinations():
    dimensions = {"ELEMENTS": {"from": 2, "to": 8}, "IDX0": [0], "IDX1": [1, 8, 16]}
    dimensions |= {f"IDX{k}": f"[{k}, {k + 7}, {16 * k}] if ELEMENTS > {k} else 0" for k in range(2, 8)}
    assert Study(KERNEL, dimensions).count() == 3279


@pytest.mark.parametrize(
    ("settings", "count", "repeated"),
    [
        ({"dimensions": {"N": [1024], "STRIDE": "[4, N // 256]"}}, 1, 1),
        ({"dimensions": {"N": [8], "S": {"from": 1, "to": 8, "factor": 2}, "LAST": "[N - 1, N - S]"}}, 7, 1),
        ({"dimensions": {"N": [1, 2], "M": "[N, 1, 2, 1]", "L": "[M, 3]"}}, 8, 8),
        ({"dimensions": {"N": [1, 2], "M": "[N, 1, 2, 1]"}, "where": ["M < 2"]}, 2, 3),
        ({"compilers": ["gcc", "gcc -O2"], "flags": ["-O2", ""]}, 3, 1),
        ({"threads": [1, 1]}, 1, 1),
        # what must stay as it is: these are several configurations
        ({"dimensions": {"N": [1], "M": "[N, 2, 3]"}}, 3, 0),
        ({"dimensions": {"N": [1], "M": "[1, 1.0, '1', N == 1]"}}, 4, 0),
        ({"dimensions": {"N": [1, 2], "M": "3"}}, 2, 0),
        ({"compilers": ["gcc", "gcc -g"], "flags": ["-O2", "-O3"]}, 4, 0),
        ({"dimensions": {"N": [1, 2], "M": [1, 2]}}, 4, 0),
    ],
)
def test_a_configuration_that_is_given_twice_is_there_once(settings, count, repeated):
    study = Study(KERNEL, **settings)
    keys = [one.key("") for one in study.configurations()]
    assert len(keys) == len(set(keys)) == study.count() == count
    assert study.repeated() == repeated


def test_assembly_orders():
    three = ["a", "b", "c"]
    assert list(Assembly(instructions=three, select="first").orders()) == [(0,), (0, 1), (0, 1, 2)]
    subsets = Assembly(instructions=three, select="subsets", permutations=True)
    assert subsets.count() == len(list(subsets.orders())) == 3 + 6 + 6


def test_a_range_ends_where_its_values_end():
    assert Range(**{"from": 1, "to": 10, "step": 4}).values() == [1, 5, 9]
    assert Range(**{"from": 1, "to": 9, "factor": 3}).values() == [1, 3, 9]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"flagz": 1}, "did you mean 'flags'"),
        ({"policy": {"repetition": 3}}, "did you mean 'repetitions'"),
        ({"policy": {"repetitions": 2}}, "policy.repetitions: expected a number of at least 3; found 2"),
        ({"policy": {"repetitions": "many"}}, "policy.repetitions: expected a whole number; found 'many'"),
        ({"flags": {"a": 3}}, "flags: expected a list; found {'a': 3}"),
        ({"policy": {"tolerance": "lots"}}, "tolerance"),
        ({"dimensions": {"N": []}}, "has no values"),
        ({"dimensions": {"N": [1, 1]}}, "twice"),
        ({"dimensions": {"N": {"from": 3, "to": 1}}}, "is empty"),
        ({"dimensions": {"N": {"form": 3, "to": 4}}}, "did you mean 'from'"),
        ({"dimensions": {"N": None}}, "N"),
        ({"dimensions": {"tsc": [1]}}, "taken"),
        ({"dimensions": {"N": "M + 1"}}, "not known there"),
        ({"where": ["M > 1"]}, "not known there"),
        ({"memory": "3 parsecs"}, "not a size"),
        ({"threads": []}, "threads"),
        ({"static": ["mixture"]}, "static"),
        ({"assembly": {"instructions": ["nop"]}}, "not both; found both"),
        ({"name": "chain it"}, r"name: expected a name of .* without spaces; found 'chain it'"),
        ({"name": 5}, "name: expected text; found 5"),
        ({"include": 5}, "include: expected a list; found 5"),
        ({"program": None, "name": None}, "name: expected text; found null"),
        ({"dimensions": {1: [1]}}, "dimensions.1: expected text as a key; found 1"),
        ({"dimensions": {"N": {"from": "x", "to": 5}}}, "N: from: expected a number; found 'x'"),
        ({"dimensions": {"N": [1.0, float("nan")]}}, "N: values are finite"),
        ({"memory": "a b ("}, r"cannot read the expression 'a b \(': '\(' was never closed \(found"),
        ({"derive": {"x": "open('f')"}}, "unknown function"),
        ({"dimensions": {False: [0, 64]}}, "a name was read as False: YAML takes on, off"),
        ({"dimensions": {"N": [1, "1e3"]}}, r"N: 1e3 is text for YAML: write 1000; where text is meant, \(1e3\)"),
        ({"dimensions": {"N": ["_e3", 1, 1]}}, "twice"),  # a name
        ({"dimensions": {"N": ["-2.5E-7"]}}, r"write -2.5e-07; where"),
        ({"derive": {"cycles": "cycles * 2"}}, "'cycles' is a column that is measured or varied"),
        ({"derive": {"settled": "0"}}, "'settled' is a column that is measured or varied"),
        ({"time_limit": -1}, "time_limit"),
        ({"dimensions": {"N": [1]}, "flags": ["-O2 -DLIMIT={N}"]}, "N.* is not replaced there"),
        (
            {"dimensions": {"N": [1]}, "flags": ["-O2 -DNN=1", "-O2 -DN=500"]},
            "'-O2 -DN=500' defines N, which is a dimension",
        ),
        ({"dimensions": {"N": [1]}, "compilers": ["gcc -D N"]}, "defines N, which is a dimension"),
    ],
)
def test_bad_settings_are_errors_that_name_them(settings, message):
    with pytest.raises(SettingError, match=message):
        Study(KERNEL, **settings)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kernel: k.c\nfoo: 1\n", "line 2: unknown key 'foo'; known: name, description, kernel"),
        (
            "kernel: k.c\ndimensions:\n  N: [1]\n\npolicy:\n  tolerance: lots\n",
            "line 6: policy.tolerance: expected a number",
        ),
        ("kernel: k.c\nflags:\n- -O2\n- 5\n", "line 4: flags.1: expected text; found 5"),
        ("kernel: k.c\nfolder: [x]\n", r"line 2: folder: expected text; found \['x'\]"),
        ("kernel: [k.c]\n", "line 1: kernel: expected text"),
        ("kernel: k.c\nsource: |\n  x\n", "line 2: `kernel` names the source already: leave `source` out"),
        ("kernel: k.c\ndimensions:\n  N: [1]\n  N: [2]\n", "line 4, column 3: .* the key 'N' stands there twice"),
        ("kernel: k.c\n[1]\n", "line 3, column 1: not YAML: could not find expected ':'$"),
        ("name: x\n", "s.yaml: give a `kernel` or an `assembly` list, and not both; found neither"),
    ],
)
def test_what_is_wrong_with_a_file_is_told_with_its_line(tmp_path, text, message):
    (tmp_path / "k.c").write_text(KERNEL)
    (tmp_path / "s.yaml").write_text(text)
    with pytest.raises((SettingError, FormatError), match=message) as told:
        Study.from_yaml(tmp_path / "s.yaml")
    assert "\n" not in str(told.value)
    assert str(told.value).startswith(str(tmp_path / "s.yaml"))


def test_merged_and_repeated_mappings_are_no_keys_that_stand_twice(tmp_path):
    (tmp_path / "k.c").write_text(KERNEL)
    (tmp_path / "s.yaml").write_text(
        "kernel: k.c\nmachine: &a {turbo: true}\nlimits: {<<: {memory: 5, files: 7}, files: 9}\n"
        "policy: {<<: &b {<<: {passes: 4}, passes: 5}, attempts: 20}\n"
        "dimensions: {N: [1], n: [1], M: {from: 1, to: 2}}\n"
    )
    study = Study.from_yaml(tmp_path / "s.yaml")
    assert (study.limits.memory, study.limits.files, study.policy.passes) == (5, 9, 5)
    assert set(study.dimensions) == {"N", "n", "M"}


@pytest.mark.parametrize("line", ['nop"; system("true")', '.include "f"', "nop\n.byte 1", "  ", "/no/such/file"])
def test_an_instruction_is_one_instruction(line):
    with pytest.raises(SettingError, match="not one assembly instruction"):
        Study(assembly={"instructions": [line]})


def test_unknown_placeholders_are_errors():
    with pytest.raises(SettingError, match="names no dimension"):
        Study(dimensions={"REG": ["xmm"]}, assembly={"instructions": ["vaddps %{RGE}1, %{REG}2, %{REG}3"]})


def test_million_fold_space_is_counted_without_being_made():
    study = Study(KERNEL, {name: list(range(100)) for name in "ABCD"})
    assert study.count() == 10**8


def test_files_and_objects_are_the_same(tmp_path):
    (tmp_path / "k.c").write_text(KERNEL)
    (tmp_path / "s.yaml").write_text("kernel: k.c\nmemory: 2 MiB\ndimensions: {N: [1, 2], M: {from: 1, to: 3}}\n")
    study = Study.from_yaml(tmp_path / "s.yaml")
    assert study.name == "s"
    assert study.memory == 2 << 20
    assert study.fingerprint() == Study(KERNEL, {"N": [1, 2], "M": [1, 2, 3]}, memory="2 MiB").fingerprint()
    (tmp_path / "again.yaml").write_text(study.to_yaml())
    again = Study.from_yaml(tmp_path / "again.yaml")
    assert again.fingerprint() == study.fingerprint()
    assert list(again.configurations()) == list(study.configurations())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- 1\n", "mapping"),
        ("a: [\n", "not YAML"),
        ("kernel: none.c\n", "no kernel file"),
        ("kernal: k.c\n", "did you mean 'kernel'"),
        ("kernel: !!python/object/apply:os.system ['true']\n", "not YAML"),
    ],
)
def test_bad_files(tmp_path, text, message):
    (tmp_path / "s.yaml").write_text(text)
    with pytest.raises((SettingError, FormatError), match=message):
        Study.from_yaml(tmp_path / "s.yaml")


def test_what_is_measured_decides_the_key_not_the_space():
    small, large = Study(KERNEL, {"N": [1]}), Study(KERNEL, {"N": [1, 2]})
    assert small.fingerprint() == large.fingerprint()
    assert small.fingerprint() != Study(KERNEL, {"N": [1]}, cache="cold").fingerprint()
    assert small.replace(flags=["-O1"]).fingerprint() == small.fingerprint()


@pytest.mark.parametrize(
    "said",
    [
        "/* PK_REGION */",
        "// a PK_REGION\\\n PK_REGION { }",
        'const char *s = "PK_REGION";',
        'const char *s = "\\" PK_REGION";',
        'const char *s = R"x(\n" PK_REGION\n)x";',
        '/* " */ // PK_REGION "',
        "int MY_PK_REGION_2;",
    ],
)
def test_a_program_that_only_mentions_the_region_is_a_program(said):
    assert Study(f"{said}\nint main(void) {{ return 0; }}\n").is_program


@pytest.mark.parametrize(
    "before",
    [
        "",
        "/* PK_REGION */",
        'const char *s = "/*";',
        "char a = '\"', b = '\\'';",
        "long a = 1'000'000; long b = 0xff'00;",
        "// don't",
        "#define REGION PK_REGION",
        '/* " */',
    ],
)
def test_a_kernel_with_a_region_is_one_whatever_stands_before(before):
    assert not Study(f'{before}\nPK_REGION {{ PK_KEEP(step); }} /* " */\n').is_program


def test_another_kernel_looks_beside_itself(tmp_path):
    """replace(kernel="b/k.c") went on looking for headers beside a/k.c: its h.h was compiled in."""
    for name in ("a/k.c", "b/k.c", "k.c"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"PK_REGION {{ }} /* {name} */")
    study = Study("a/k.c", {"N": [1]}, folder=str(tmp_path))
    for kernel in ("b/k.c", "k.c", str(tmp_path / "b" / "k.c"), "PK_REGION { }"):
        anew = study.replace(kernel=kernel)
        assert anew == Study(kernel, {"N": [1]}, folder=str(tmp_path))
        assert anew.beside == ("" if kernel in ("k.c", "PK_REGION { }") else str(Path(kernel).parent))
    assert study.replace(flags=["-O3"]).beside == "a"
    assert study.replace(kernel="b/k.c", beside="a").beside == "a"


def test_another_kernel_is_of_the_language_that_its_name_says(tmp_path):
    """replace(kernel="x.cpp") of a C study compiled C++ as C."""
    for name in ("a.c", "b.cpp", "c.c"):
        (tmp_path / name).write_text("PK_REGION { }\n")
    plain = Study("a.c", folder=str(tmp_path))
    assert plain.replace(kernel="b.cpp").language == "c++"
    assert plain.replace(kernel="b.cpp").replace(kernel="c.c").language == "c"
    assert plain.replace(kernel="c.c").language == "c"
    assert plain.replace(kernel="b.cpp", language="c").language == "c"
    text = Study("PK_REGION { }", language="c++", folder=str(tmp_path))
    assert (text.language, text.replace(kernel="PK_REGION { ; }").language) == ("c++", "c++")
    assert text.replace(kernel="a.c").language == "c"
    # Said against the name, it is meant.
    meant = Study("a.c", folder=str(tmp_path), language="c++")
    assert (meant.language, meant.replace(kernel="c.c").language) == ("c++", "c++")
    assert plain.replace(flags=["-O1"]).language == "c"
    assert plain.replace(kernel="b.cpp").replace(flags=["-O1"]).language == "c++"


def test_names_that_assembly_mode_fills_in_are_free_in_kernels():
    """ORDER: [1, 2] of a kernel ended in an AttributeError; texts overwrote a dimension INSTRUCTIONS."""
    kernel = Study("PK_REGION { }", {"ORDER": [1, 2]})
    assert [one.values for one in kernel.configurations()] == [{"ORDER": 1}, {"ORDER": 2}]
    both = Study("PK_REGION { }", {"ORDER": ["a,b,c"], "INSTRUCTIONS": [7]})
    assert [one.values for one in both.configurations()] == [{"ORDER": "a,b,c", "INSTRUCTIONS": 7}]
    assembly = {"instructions": ["add %rax, %rax", "sub %rcx, %rcx"]}
    for name in ("ORDER", "INSTRUCTIONS"):
        with pytest.raises(SettingError, match="cannot name a dimension: in assembly mode"):
            Study(dimensions={name: [1, 2]}, assembly=assembly)
    (plain,) = Study(assembly=assembly).configurations()
    assert plain.values == {"INSTRUCTIONS": 2}
    orders = Study(assembly={**assembly, "permutations": True}).configurations()
    assert {(one.values["ORDER"], one.values["INSTRUCTIONS"]) for one in orders} == {("0,1", 2), ("1,0", 2)}


def test_reserved_names_are_said_to_be_reserved_and_documented():
    documented = Path(__file__).parents[2].joinpath("docs", "studies.md").read_text(encoding="utf-8")
    listed = documented.split("Reserved names", 1)[1].split("\n\n", 1)[0]
    assert {f"`{name}`" for name in RESERVED} <= set(re.findall(r"`\w+`", listed))
    for name, reason in (
        ("kind", "reserved are attempts, compiler,"), ("2N", "no C macro name"), ("PK_N", "PK_"),
        ("for", "a word of C"),
        ("int", "a word of C"),
    ):  # fmt: skip
        with pytest.raises(SettingError, match=f"'{name}' cannot name a dimension: .*{reason}"):
            Study("PK_REGION { }", {name: [1]})


@pytest.mark.parametrize("name", ["repetitions", "kind"])
def test_columns_that_written_tables_add_name_nothing_of_the_users(name):
    """A table with two columns `repetitions` could not be read again."""
    with pytest.raises(SettingError, match=f"'{name}' cannot name a dimension"):
        Study("PK_REGION { }", {name: [1]})
    with pytest.raises(SettingError, match=f"derive: '{name}' is a column"):
        Study("PK_REGION { }", {"N": [1]}, derive={name: "N"})
    assert name in RESERVED  # which reports are checked against


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ({"events": ["branches"]}, "branches"),
        ({"events": ["branch-misses"]}, "branch_misses"),
        ({"static": ["mca"]}, "mca_cycles"),
        ({"static": ["mix", "osaca"]}, "osaca_cycles"),
        ({"static": ["mix"]}, "mix_add_GPR_GPR"),
    ],
)
def test_columns_that_events_and_static_add_name_nothing_else(asked, name):
    """The table was refused after all rows were measured, and blamed a report of the kernel."""
    with pytest.raises(SettingError, match=f"'{name}' cannot name a dimension: the study's events or static"):
        Study("PK_REGION { }", {name: [1]}, **asked)
    with pytest.raises(SettingError, match=f"derive: '{name}' is a column"):
        Study("PK_REGION { }", {"N": [1]}, derive={name: "N"}, **asked)
    Study("PK_REGION { }", {name: [1]})
    Study("PK_REGION { }", {"N": [1]}, derive={f"{name}_ratio": "N"}, **asked)


def test_what_differs_in_its_numbers_alone_is_said_once():
    """Four rows of whole programs had four such lines, "in 1 of 4 rows" each."""
    found = pk.datasets.load("studies/fma")
    table = found.table.copy()
    told = ["interrupts took up to 2.01%", "interrupts took up to 10.40%", "another", "interrupts took up to 1.37%"]
    told += ["steps of 26 ticks, 42 cycles each", "steps of 26 ticks, 43 cycles each"]
    told += ["AVX2 is off", "AVX512 is off"]  # no number of its own
    table["message"] = told + [""] * (len(table) - len(told))
    said = pk.StudyRuns(table, found.raw, found.dimensions, found.metadata).told()
    ok = (table["status"] == "ok").sum()
    largest = " (the largest of their numbers)"
    assert said[1] == f"in 1 of {ok} rows (WIDTH=128, TYPE=ps, REG=xmm, ORDER=0,1,2, INSTRUCTIONS=3) another"
    assert (said[2].count("(WIDTH="), said[2].count("; WIDTH=")) == (1, 1)
    assert [re.sub(r"\(WIDTH=[^)]*\) ", "", line) for line in said] == [
        f"in 3 of {ok} rows interrupts took up to 10.40%{largest}", f"in 1 of {ok} rows another",
        f"in 2 of {ok} rows steps of 26 ticks, 43 cycles each{largest}", f"in 1 of {ok} rows AVX2 is off",
        f"in 1 of {ok} rows AVX512 is off",
    ]  # fmt: skip


def test_a_table_that_could_not_be_read_again_is_not_written(tmp_path):
    """A folder of before `repetitions` was taken: it was written, and the file refused as damaged."""
    found = pk.datasets.load("studies/fma")
    table = found.table.assign(repetitions=1)
    with pytest.raises(DataError, match="a column named 'repetitions' cannot be saved"):
        pk.StudyRuns(table, found.raw, found.dimensions, found.metadata).to_parquet(tmp_path / "x.parquet")
    assert list(tmp_path.iterdir()) == []
    kept = pk.StudyRuns(found.table.assign(times=1), found.raw, found.dimensions, found.metadata)
    assert pk.StudyRuns.load(kept.save(tmp_path / "x.parquet")).table.equals(kept.table)


@pytest.mark.parametrize(("passes", "settled", "told"), [(1, True, True), (2, True, False), (1, False, False)])
def test_rows_of_one_pass_are_told_to_have_no_interval(passes, settled, told):
    """All rows were "settled", without an interval or a word."""
    found = pk.datasets.load("studies/fma")
    table = found.table.assign(passes=passes, settled=settled)
    said = pk.StudyRuns(table, found.raw, found.dimensions, found.metadata).summary()
    assert ("settled rows one pass was enough, as the policy says" in said) == told
    assert "one pass" not in found.summary()  # measured before passes were counted
