//! Formats, compression, merge engines, aggregation functions, delete behaviour.

use super::*;

#[test]
fn vf16_an_indexed_log_needs_an_indexed_kv_format() {
    let formats =
        |log: &'static str, kv: &'static str| [("table.log.format", log), ("table.kv.format", kv)];
    check_refused(
        pk_table(&formats("INDEXED", "COMPACTED")),
        E39,
        "supports ARROW or COMPACTED log format when kv format is COMPACTED",
    );
    check_refused(
        pk_table(&[("table.log.format", "indexed")]),
        E39,
        "log format",
    );
    for (log, kv) in [
        ("ARROW", "COMPACTED"),
        ("COMPACTED", "COMPACTED"),
        ("ARROW", "INDEXED"),
        ("COMPACTED", "INDEXED"),
        ("INDEXED", "INDEXED"),
    ] {
        check_created(pk_table(&formats(log, kv)));
    }
    check_created(log_table(&formats("INDEXED", "COMPACTED")));
}

#[test]
fn zstd_levels_run_from_1_to_22_whatever_the_codec() {
    let level = "table.log.arrow.compression.zstd.level";
    for other in [
        ("table.log.arrow.compression.type", "ZSTD"),
        ("table.log.arrow.compression.type", "NONE"),
        ("table.log.format", "INDEXED"),
    ] {
        for bad in ["0", "23", "-5"] {
            let fragment = format!("Invalid ZSTD compression level: {bad}");
            check_refused(log_table(&[(level, bad), other]), E39, &fragment);
        }
        for good in ["1", "22"] {
            check_created(log_table(&[(level, good), other]));
        }
    }
}

#[test]
fn merge_engines_need_a_primary_key() {
    for engine in ["first_row", "versioned", "aggregation"] {
        check_refused(
            log_table(&[("table.merge-engine", engine)]),
            E39,
            "Merge engine is only supported in primary key table.",
        );
    }
}

#[test]
fn the_versioned_engine_needs_a_version_column_of_four_types() {
    let versioned = |type_of_v: &str, column: &'static str| {
        pk_table_of(
            &[("a", "INT"), ("v", type_of_v)],
            &[
                ("table.merge-engine", "versioned"),
                ("table.merge-engine.versioned.ver-column", column),
            ],
        )
    };
    check_refused(
        pk_table(&[("table.merge-engine", "versioned")]),
        E39,
        "'table.merge-engine.versioned.ver-column' must be set for versioned merge engine.",
    );
    check_refused(
        versioned("INT", "x"),
        E39,
        "The version column 'x' for versioned merge engine doesn't exist in schema.",
    );
    for bad in ["STRING", "SMALLINT", "DATE"] {
        let fragment =
            format!("must be one type of [INT, BIGINT, TIMESTAMP, TIMESTAMP_LTZ], but got {bad}.");
        check_refused(versioned(bad, "v"), E39, &fragment);
    }
    for good in ["INT", "BIGINT", "TIMESTAMP(3)", "TIMESTAMP_LTZ(9)"] {
        check_created(versioned(good, "v"));
    }
    check_created(versioned("STRING", "a"));
    check_created(pk_table(&[(
        "table.merge-engine.versioned.ver-column",
        "missing",
    )]));
}

#[test]
fn only_the_aggregation_engine_needs_the_full_changelog() {
    let image = ("table.changelog.image", "WAL");
    check_refused(
        pk_table(&[("table.merge-engine", "aggregation"), image]),
        E39,
        "Table with 'AGGREGATION' merge engine does not support 'WAL' changelog image mode",
    );
    check_created(pk_table(&[("table.merge-engine", "first_row"), image]));
    check_created(log_table(&[image]));
}

/// An aggregation table with one column that has a function.
fn aggregated(type_of_c: &str, function: AggFunction) -> TableDescriptor {
    let schema = Schema::builder()
        .column("a", of("INT"))
        .column("c", of(type_of_c))
        .aggregate(function)
        .primary_key(["a"])
        .build()
        .expect("valid");
    TableDescriptor::new(schema).with_property("table.merge-engine", "aggregation")
}

#[test]
fn aggregation_functions_need_the_aggregation_engine() {
    let mut table = aggregated("INT", AggFunction::new("sum"));
    table.properties.clear();
    check_refused(
        table.clone(),
        E39,
        "Aggregation function is only supported for aggregation merge engine table",
    );
    table
        .properties
        .insert("table.merge-engine".to_owned(), "first_row".to_owned());
    check_refused(table, E39, "Aggregation function is only supported");
}

#[test]
fn aggregation_functions_work_on_types_of_their_own() {
    for (function, data_type) in [
        ("sum", "STRING"),
        ("product", "DATE"),
        ("max", "BOOLEAN"),
        ("min", "BYTES"),
        ("listagg", "INT"),
        ("listagg", "CHAR(3)"),
        ("string_agg", "CHAR(3)"),
        ("bool_and", "INT"),
        ("bool_or", "STRING"),
        ("rbm32", "STRING"),
        ("rbm64", "BINARY(3)"),
    ] {
        let table = aggregated(data_type, AggFunction::new(function));
        check_refused(
            table,
            E39,
            &format!(
                "Invalid aggregation function for column 'c': Data type for {function} column must be part of ["
            ),
        );
    }
    for (function, data_type) in [
        ("sum", "DECIMAL(10, 2)"),
        ("product", "TINYINT"),
        ("max", "CHAR(3)"),
        ("min", "TIMESTAMP_LTZ(3)"),
        ("last_value", "ARRAY<INT>"),
        ("last_value_ignore_nulls", "ROW<f INT>"),
        ("first-value", "MAP<INT, INT>"),
        ("FIRST_VALUE_IGNORE_NULLS", "BYTES"),
        ("LISTAGG", "STRING"),
        ("bool_or", "BOOLEAN"),
        ("rbm64", "BYTES"),
    ] {
        check_created(aggregated(data_type, AggFunction::new(function)));
    }
}

#[test]
fn only_listagg_takes_a_parameter_and_it_is_not_empty() {
    let listagg = AggFunction::new("listagg");
    check_created(aggregated(
        "STRING",
        listagg.clone().with_parameter("delimiter", "|"),
    ));
    check_refused(
        aggregated("STRING", listagg.clone().with_parameter("delimiter", "")),
        E39,
        "must not be empty",
    );
    check_refused(
        aggregated("STRING", listagg.with_parameter("order", "asc")),
        E39,
        "Parameter 'order' is not supported for aggregation function 'listagg'",
    );
    check_refused(
        aggregated(
            "INT",
            AggFunction::new("sum").with_parameter("delimiter", "|"),
        ),
        E39,
        "Parameter 'delimiter' is not supported for aggregation function 'sum'",
    );
}

#[test]
fn an_unknown_aggregation_function_is_refused_instead_of_dropped() {
    check_refused(
        aggregated("INT", AggFunction::new("median")),
        E39,
        "Unknown aggregation function type: median",
    );
}

#[test]
fn vf22_delete_behaviour_is_for_primary_key_tables_and_fits_the_engine() {
    let behavior = |value: &'static str| ("table.delete.behavior", value);
    check_refused(
        log_table(&[behavior("ignore")]),
        E39,
        "configuration is only supported for primary key tables",
    );
    for (engine, name) in [("first_row", "FIRST_ROW"), ("versioned", "VERSIONED")] {
        let table = |value| {
            pk_table(&[
                ("table.merge-engine", engine),
                ("table.merge-engine.versioned.ver-column", "a"),
                behavior(value),
            ])
        };
        let fragment =
            format!("Table with '{name}' merge engine does not support delete operations.");
        check_refused(table("Allow"), E39, &fragment);
        check_refused(table("Allow"), E39, "but got 'allow'.");
        check_created(table("ignore"));
        check_created(table("disable"));
    }
    for value in ["ALLOW", "IGNORE", "DISABLE"] {
        check_created(pk_table(&[behavior(value)]));
        check_created(pk_table(&[
            ("table.merge-engine", "aggregation"),
            behavior(value),
        ]));
    }
}
