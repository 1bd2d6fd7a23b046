use proptest::prelude::*;
use serde_json::json;

use super::*;

/// Types that keep the rules, ids of nested fields unassigned.
pub(crate) fn any_data_type() -> impl Strategy<Value = DataType> {
    any_scalar().prop_recursive(4, 24, 4, |inner| {
        let name = "[a-z`' é][a-z0-9`'A-Z ]{0,6}";
        let field = (name, inner.clone(), proptest::option::of("[ -~]{0,8}"));
        let kind = prop_oneof![
            inner
                .clone()
                .prop_map(|element| TypeKind::Array(Box::new(element))),
            (inner.clone(), inner).prop_map(|(mut key, value)| {
                key.nullable = false;
                TypeKind::Map {
                    key: Box::new(key),
                    value: Box::new(value),
                }
            }),
            proptest::collection::vec(field, 0..4).prop_map(|fields| {
                let fields = fields.into_iter().enumerate();
                TypeKind::Row(
                    fields
                        .map(|(index, (name, data_type, description))| RowField {
                            description,
                            ..RowField::new(format!("{name}{index}"), data_type)
                        })
                        .collect(),
                )
            }),
        ];
        (kind, any::<bool>()).prop_map(|(kind, nullable)| DataType { kind, nullable })
    })
}

fn any_scalar() -> impl Strategy<Value = DataType> {
    let kind = prop_oneof![
        proptest::sample::select(vec![
            TypeKind::Boolean,
            TypeKind::TinyInt,
            TypeKind::SmallInt,
            TypeKind::Int,
            TypeKind::BigInt,
            TypeKind::Float,
            TypeKind::Double,
            TypeKind::String,
            TypeKind::Bytes,
            TypeKind::Date,
        ]),
        (1..=i32::MAX as u32).prop_map(|length| TypeKind::Char { length }),
        (1..=i32::MAX as u32).prop_map(|length| TypeKind::Binary { length }),
        (1..=38_u8)
            .prop_flat_map(|precision| (Just(precision), 0..=precision))
            .prop_map(|(precision, scale)| TypeKind::Decimal { precision, scale }),
        (0..=9_u8).prop_map(|precision| TypeKind::Time { precision }),
        (0..=9_u8).prop_map(|precision| TypeKind::Timestamp { precision }),
        (0..=9_u8).prop_map(|precision| TypeKind::TimestampLtz { precision }),
    ];
    (kind, any::<bool>()).prop_map(|(kind, nullable)| DataType { kind, nullable })
}

fn from_text(text: &str) -> DataType {
    text.parse()
        .unwrap_or_else(|error| panic!("{text}: {error}"))
}

proptest! {
    #[test]
    fn any_type_is_read_back_from_json(data_type in any_data_type()) {
        let bytes = data_type.to_json_bytes();
        prop_assert_eq!(DataType::from_json_bytes(&bytes), Ok(data_type));
    }

    #[test]
    fn any_type_is_read_back_from_text(data_type in any_data_type()) {
        let text = data_type.to_string();
        prop_assert_eq!(text.parse(), Ok(data_type));
    }

    #[test]
    fn any_generated_type_passes_its_own_rules(data_type in any_data_type()) {
        prop_assert_eq!(data_type.clone().checked(), Ok(data_type));
    }

    #[test]
    fn any_text_parses_or_fails_but_never_panics(text in "(\\PC|[<>(),'` ]|ROW|ARRAY|NOT){0,40}") {
        if let Ok(data_type) = text.parse::<DataType>() {
            prop_assert_eq!(data_type.clone().checked(), Ok(data_type));
        }
    }
}

#[test]
fn json_and_text_forms_are_those_of_the_specification() {
    let cases = [
        ("BOOLEAN", r#"{"type":"BOOLEAN"}"#),
        ("TINYINT", r#"{"type":"TINYINT"}"#),
        ("SMALLINT", r#"{"type":"SMALLINT"}"#),
        ("INT NOT NULL", r#"{"type":"INTEGER","nullable":false}"#),
        ("BIGINT", r#"{"type":"BIGINT"}"#),
        ("FLOAT", r#"{"type":"FLOAT"}"#),
        ("DOUBLE", r#"{"type":"DOUBLE"}"#),
        ("CHAR(10)", r#"{"type":"CHAR","length":10}"#),
        ("STRING", r#"{"type":"STRING"}"#),
        (
            "BINARY(3) NOT NULL",
            r#"{"type":"BINARY","nullable":false,"length":3}"#,
        ),
        ("BYTES", r#"{"type":"BYTES"}"#),
        (
            "DECIMAL(10, 2)",
            r#"{"type":"DECIMAL","precision":10,"scale":2}"#,
        ),
        ("DATE", r#"{"type":"DATE"}"#),
        (
            "TIME(3)",
            r#"{"type":"TIME_WITHOUT_TIME_ZONE","precision":3}"#,
        ),
        (
            "TIMESTAMP(6)",
            r#"{"type":"TIMESTAMP_WITHOUT_TIME_ZONE","precision":6}"#,
        ),
        (
            "TIMESTAMP(9) WITH LOCAL TIME ZONE",
            r#"{"type":"TIMESTAMP_WITH_LOCAL_TIME_ZONE","precision":9}"#,
        ),
        (
            "ARRAY<INT>",
            r#"{"type":"ARRAY","element_type":{"type":"INTEGER"}}"#,
        ),
        (
            "MAP<STRING NOT NULL, INT>",
            r#"{"type":"MAP","key_type":{"type":"STRING","nullable":false},"value_type":{"type":"INTEGER"}}"#,
        ),
        (
            "ROW<`f` INT 'desc', `g` STRING NOT NULL>",
            r#"{"type":"ROW","fields":[{"name":"f","field_type":{"type":"INTEGER"},"description":"desc","field_id":-1},{"name":"g","field_type":{"type":"STRING","nullable":false},"field_id":-1}]}"#,
        ),
        ("ROW<>", r#"{"type":"ROW","fields":[]}"#),
    ];
    for (text, json) in cases {
        let data_type = DataType::from_json_bytes(json.as_bytes()).expect(json);
        assert_eq!(data_type.to_string(), text);
        assert_eq!(
            String::from_utf8(data_type.to_json_bytes()).as_deref(),
            Ok(json)
        );
        assert_eq!(from_text(text), data_type);
    }
}

#[test]
fn the_parser_takes_what_users_of_sql_write() {
    for (text, canonical) in [
        ("bigint not null", "BIGINT NOT NULL"),
        ("  int  ", "INT"),
        ("INT NULL", "INT"),
        ("INTEGER", "INT"),
        ("DOUBLE PRECISION", "DOUBLE"),
        ("NUMERIC(5,3)", "DECIMAL(5, 3)"),
        ("DEC(7)", "DECIMAL(7, 0)"),
        ("DECIMAL", "DECIMAL(10, 0)"),
        ("CHAR", "CHAR(1)"),
        ("BINARY", "BINARY(1)"),
        ("VARBINARY(2147483647)", "BYTES"),
        ("TIME", "TIME(0)"),
        ("TIME(3) WITHOUT TIME ZONE", "TIME(3)"),
        ("TIMESTAMP", "TIMESTAMP(6)"),
        ("TIMESTAMP WITHOUT TIME ZONE", "TIMESTAMP(6)"),
        (
            "TIMESTAMP(3) with local time zone",
            "TIMESTAMP(3) WITH LOCAL TIME ZONE",
        ),
        ("TIMESTAMP_LTZ(3)", "TIMESTAMP(3) WITH LOCAL TIME ZONE"),
        (
            "TIMESTAMP_LTZ NOT NULL",
            "TIMESTAMP(6) WITH LOCAL TIME ZONE NOT NULL",
        ),
        ("ARRAY < INT NOT NULL >", "ARRAY<INT NOT NULL>"),
        ("INT ARRAY", "ARRAY<INT>"),
        (
            "INT NOT NULL ARRAY ARRAY NOT NULL",
            "ARRAY<ARRAY<INT NOT NULL>> NOT NULL",
        ),
        (
            "MAP<INT, ARRAY<STRING>>",
            "MAP<INT NOT NULL, ARRAY<STRING>>",
        ),
        (
            "ROW(a INT, b ROW<c STRING>)",
            "ROW<`a` INT, `b` ROW<`c` STRING>>",
        ),
        ("ROW()", "ROW<>"),
        ("ROW<`a``b` INT 'it''s'>", "ROW<`a``b` INT 'it''s'>"),
        ("ROW<`é ü` INT>", "ROW<`é ü` INT>"),
    ] {
        assert_eq!(from_text(text).to_string(), canonical, "{text}");
    }
}

#[test]
fn the_parser_says_where_a_text_is_wrong() {
    for (text, problem) in [
        ("", "expected a type at position 0"),
        ("INTT", "unknown type at position 0"),
        ("VARCHAR(20)", "use STRING"),
        ("VARBINARY(20)", "use BYTES"),
        ("INT NOT", "expected NULL"),
        ("INT INT", "expected the end of the type"),
        ("ARRAY", "expected '<'"),
        ("ARRAY<INT", "expected '>'"),
        ("MAP<INT>", "expected ','"),
        ("ROW<INT", "expected a type"),
        ("ROW<a INT,>", "expected a field name"),
        ("ROW<`a INT>", "unbalanced quote"),
        ("CHAR(x)", "expected a number"),
        ("CHAR(99999999999)", "expected a number"),
        ("CHAR(2", "expected ')'"),
        ("TIMESTAMP WITH TIME ZONE", "only local time zones"),
        ("TIMESTAMP WITHOUT ZONE", "expected TIME ZONE"),
        ("CHAR(0)", "must be between"),
        ("DECIMAL(39)", "must be between"),
        ("DECIMAL(5,6)", "must be between"),
        ("DECIMAL(300)", "must be between"),
        ("TIMESTAMP(10)", "must be between"),
        ("ROW<a INT, a INT>", "Field names must be unique"),
        ("ROW<` ` INT>", "non-whitespace"),
    ] {
        let error = text.parse::<DataType>().expect_err(text).to_string();
        assert!(error.contains(problem), "{text}: {error}");
    }
}

#[test]
fn json_that_is_no_type_is_refused() {
    for json in [
        json!(null),
        json!([]),
        json!("INTEGER"),
        json!({}),
        json!({"type": "VARCHAR", "length": 3}),
        json!({"type": "integer"}),
        json!({"type": "CHAR"}),
        json!({"type": "CHAR", "length": 0}),
        json!({"type": "CHAR", "length": -1}),
        json!({"type": "CHAR", "length": 2_147_483_648_u32}),
        json!({"type": "DECIMAL", "precision": 39, "scale": 0}),
        json!({"type": "DECIMAL", "precision": 5, "scale": 6}),
        json!({"type": "DECIMAL", "precision": 5}),
        json!({"type": "DECIMAL", "precision": 261, "scale": 0}),
        json!({"type": "TIMESTAMP_WITHOUT_TIME_ZONE", "precision": 10}),
        json!({"type": "TIME_WITHOUT_TIME_ZONE"}),
        json!({"type": "ARRAY"}),
        json!({"type": "MAP", "key_type": {"type": "INTEGER"}}),
        json!({"type": "ROW"}),
        json!({"type": "ROW", "fields": [{"name": "a"}]}),
        json!({"type": "INTEGER", "nullable": "perhaps"}),
    ] {
        assert!(DataType::from_json(&json).is_err(), "{json}");
    }
    let duplicate = json!({"type": "ROW", "fields": [
        {"name": "a", "field_type": {"type": "INTEGER"}},
        {"name": "a", "field_type": {"type": "INTEGER"}},
    ]});
    let error = DataType::from_json(&duplicate)
        .expect_err("duplicate")
        .to_string();
    assert!(error.contains("Field names must be unique"), "{error}");
}

#[test]
fn json_scalars_of_another_type_are_read_leniently() {
    let lenient = json!({"type": "CHAR", "length": "7", "nullable": "false", "more": [1]});
    assert_eq!(
        DataType::from_json(&lenient),
        Ok(DataType::not_null(TypeKind::Char { length: 7 }))
    );
}

#[test]
fn map_keys_lose_null_wherever_a_map_comes_from() {
    let json = br#"{"type":"MAP","key_type":{"type":"STRING"},"value_type":{"type":"STRING"}}"#;
    let key_of = |data_type: DataType| match data_type.kind {
        TypeKind::Map { key, .. } => *key,
        other => panic!("{other}"),
    };
    let not_null = DataType::not_null(TypeKind::String);
    assert_eq!(
        key_of(DataType::from_json_bytes(json).expect("valid")),
        not_null
    );
    assert_eq!(key_of(from_text("MAP<STRING, STRING>")), not_null);
    let built = DataType::nullable(TypeKind::Map {
        key: Box::new(DataType::nullable(TypeKind::String)),
        value: Box::new(DataType::nullable(TypeKind::String)),
    });
    assert_eq!(key_of(built.checked().expect("valid")), not_null);
}

#[test]
fn nesting_is_bounded_in_text_and_every_legal_type_can_be_read_back_from_json() {
    for (open, close) in [
        ("ARRAY<", ">"),
        ("ROW<f ", ">"),
        ("MAP<INT, ", ">"),
        ("ROW(f ", ")"),
    ] {
        let nested = |levels: usize| format!("{}INT{}", open.repeat(levels), close.repeat(levels));
        let deepest = from_text(&nested(MAX_NESTING));
        assert_eq!(
            DataType::from_json_bytes(&deepest.to_json_bytes()),
            Ok(deepest)
        );
        for levels in [MAX_NESTING + 1, 100_000] {
            let error = nested(levels).parse::<DataType>().expect_err("too deep");
            assert!(error.to_string().contains("nested"), "{error}");
        }
    }
    let postfix = |levels: usize| format!("INT{}", " ARRAY".repeat(levels));
    from_text(&postfix(MAX_NESTING));
    assert!(postfix(MAX_NESTING + 1).parse::<DataType>().is_err());
    assert!(postfix(100_000).parse::<DataType>().is_err());
    let mixed = |inner: usize| format!("ARRAY<{}>", postfix(inner));
    from_text(&mixed(MAX_NESTING - 1));
    assert!(mixed(MAX_NESTING).parse::<DataType>().is_err());
}

#[test]
fn hostile_nesting_in_json_is_refused_without_deep_recursion() {
    let array = |levels: usize| {
        let open = r#"{"type":"ARRAY","element_type":"#.repeat(levels);
        format!(r#"{open}{{"type":"INTEGER"}}{}"#, "}".repeat(levels))
    };
    assert!(DataType::from_json_bytes(array(MAX_NESTING).as_bytes()).is_ok());
    for levels in [MAX_NESTING + 1, 120, 1_000_000] {
        assert!(DataType::from_json_bytes(array(levels).as_bytes()).is_err());
    }
}

#[test]
fn a_type_built_in_code_is_checked_for_depth() {
    let mut data_type = DataType::nullable(TypeKind::Int);
    for _ in 0..=MAX_NESTING {
        data_type = DataType::nullable(TypeKind::Array(Box::new(data_type)));
    }
    assert!(data_type.checked().is_err());
}

#[test]
fn ids_of_nested_fields_do_not_change_the_type() {
    let with_id = |field_id| {
        let field = RowField {
            field_id,
            ..RowField::new("f", from_text("INT"))
        };
        DataType::nullable(TypeKind::Array(Box::new(DataType::nullable(
            TypeKind::Row(vec![field]),
        ))))
    };
    assert_ne!(with_id(1), with_id(2));
    assert!(with_id(1).same_type(&with_id(2)));
    assert!(!with_id(1).same_type(&from_text("ARRAY<ROW<f STRING>>")));
    assert!(!with_id(1).same_type(&from_text("ARRAY<ROW<g INT>>")));
    assert!(!from_text("INT").same_type(&from_text("INT NOT NULL")));
    assert!(!from_text("MAP<INT, INT>").same_type(&from_text("MAP<INT, STRING>")));
}
