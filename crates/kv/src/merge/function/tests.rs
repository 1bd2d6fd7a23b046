//! Vectors of tables.md §9.4, and the rules of §4.7 that have none.

use mainstem_format::value::Timestamp;
use mainstem_types::{AggFunction, DataType};

use super::*;

fn function(name: &str, kind: TypeKind) -> Function {
    with_function(AggFunction::new(name), kind)
}

fn with_function(function: AggFunction, kind: TypeKind) -> Function {
    let column = Column {
        name: "c".to_owned(),
        data_type: DataType::nullable(kind),
        comment: None,
        agg_function: Some(function),
        id: 0,
    };
    Function::of(&column, false)
}

/// Applies a function to inputs one after the other, from null on.
fn fold(function: &Function, inputs: &[Value<'static>]) -> Value<'static> {
    inputs.iter().fold(Value::Null, |accumulator, input| {
        function.apply(&accumulator, input).unwrap()
    })
}

#[track_caller]
fn check(name: &str, kind: TypeKind, inputs: &[Value<'static>], expected: Value<'static>) {
    let merged = fold(&function(name, kind), inputs);
    // By the text, so that NaN equals itself and −0.0 is not 0.0.
    assert_eq!(format!("{merged:?}"), format!("{expected:?}"), "{name}");
}

const DECIMAL_10_2: TypeKind = TypeKind::Decimal {
    precision: 10,
    scale: 2,
};

use Value::{BigInt, Boolean, Date, Decimal, Double, Float, Int, Null, SmallInt, Time, TinyInt};

fn text(value: &'static str) -> Value<'static> {
    Value::from(value)
}

fn at(millis: i64, nanos_of_milli: i32) -> Value<'static> {
    Value::Timestamp(Timestamp {
        millis,
        nanos_of_milli,
    })
}

#[test]
fn af1_af2_sums_of_every_type() {
    let sums = [
        (TypeKind::TinyInt, TinyInt(5), TinyInt(3), TinyInt(8)),
        (
            TypeKind::SmallInt,
            SmallInt(100),
            SmallInt(200),
            SmallInt(300),
        ),
        (TypeKind::Int, Int(1000), Int(2000), Int(3000)),
        (
            TypeKind::BigInt,
            BigInt(10_000),
            BigInt(20_000),
            BigInt(30_000),
        ),
        (TypeKind::Float, Float(1.5), Float(2.5), Float(4.0)),
        (TypeKind::Double, Double(10.5), Double(20.5), Double(31.0)),
        (
            DECIMAL_10_2,
            Decimal(10_050),
            Decimal(20_075),
            Decimal(30_125),
        ),
    ];
    for (kind, a, b, sum) in sums {
        check("sum", kind.clone(), &[a.clone(), b], sum);
        // AF3: null adds nothing.
        check("sum", kind.clone(), &[a.clone(), Null], a.clone());
        check("sum", kind, &[Null, a.clone()], a);
    }
}

#[test]
fn af4_af5_products_of_every_type() {
    let products = [
        (TypeKind::TinyInt, TinyInt(5), TinyInt(3), TinyInt(15)),
        (
            TypeKind::SmallInt,
            SmallInt(10),
            SmallInt(20),
            SmallInt(200),
        ),
        (TypeKind::Int, Int(100), Int(200), Int(20_000)),
        (TypeKind::BigInt, BigInt(100), BigInt(-200), BigInt(-20_000)),
        (TypeKind::Float, Float(2.5), Float(4.0), Float(10.0)),
        (TypeKind::Double, Double(2.5), Double(4.0), Double(10.0)),
        (
            TypeKind::Double,
            Double(0.9),
            Double(0.8),
            Double(0.720_000_000_000_000_1),
        ),
        (DECIMAL_10_2, Decimal(250), Decimal(400), Decimal(1000)),
    ];
    for (kind, a, b, product) in products {
        check("product", kind.clone(), &[a.clone(), b], product);
        check("product", kind.clone(), &[a.clone(), Null], a.clone());
        check("product", kind, &[Null, a.clone()], a);
    }
}

#[test]
fn integers_wrap_around() {
    check(
        "sum",
        TypeKind::TinyInt,
        &[TinyInt(127), TinyInt(1)],
        TinyInt(-128),
    );
    check(
        "sum",
        TypeKind::SmallInt,
        &[SmallInt(-32_768), SmallInt(-1)],
        SmallInt(32_767),
    );
    check(
        "sum",
        TypeKind::Int,
        &[Int(i32::MAX), Int(1)],
        Int(i32::MIN),
    );
    check(
        "sum",
        TypeKind::BigInt,
        &[BigInt(i64::MAX), BigInt(2)],
        BigInt(i64::MIN + 1),
    );
    check(
        "product",
        TypeKind::TinyInt,
        &[TinyInt(100), TinyInt(3)],
        TinyInt(44),
    );
    check(
        "product",
        TypeKind::SmallInt,
        &[SmallInt(i16::MIN), SmallInt(-1)],
        SmallInt(i16::MIN),
    );
    check(
        "product",
        TypeKind::Int,
        &[Int(1 << 20), Int(1 << 12)],
        Int(0),
    );
    check(
        "product",
        TypeKind::BigInt,
        &[BigInt(i64::MIN), BigInt(-1)],
        BigInt(i64::MIN),
    );
}

#[test]
fn decimals_that_do_not_fit_become_null() {
    let most = 9_999_999_999;
    check("sum", DECIMAL_10_2, &[Decimal(most), Decimal(1)], Null);
    check(
        "sum",
        DECIMAL_10_2,
        &[Decimal(most), Decimal(1), Decimal(7)],
        Decimal(7),
    );
    check(
        "product",
        DECIMAL_10_2,
        &[Decimal(most), Decimal(101)],
        Null,
    );
    check(
        "product",
        DECIMAL_10_2,
        &[Decimal(5), Decimal(10)],
        Decimal(1),
    );
}

#[test]
fn af6_af7_af8_af9_extremes() {
    let timestamp = TypeKind::Timestamp { precision: 6 };
    let ordered = [
        (TypeKind::TinyInt, TinyInt(-10), TinyInt(-5)),
        (TypeKind::SmallInt, SmallInt(-1), SmallInt(1)),
        (TypeKind::Int, Int(1000), Int(2000)),
        (TypeKind::BigInt, BigInt(i64::MIN), BigInt(0)),
        (TypeKind::Float, Float(-1.5), Float(1.5)),
        (TypeKind::Double, Double(f64::NEG_INFINITY), Double(-1.0)),
        (DECIMAL_10_2, Decimal(7_999), Decimal(9_999)),
        (TypeKind::String, text("apple"), text("banana")),
        (TypeKind::String, text(""), text("test")),
        (TypeKind::Char { length: 5 }, text("a"), text("ab")),
        // By bytes: 'Z' < 'a', and U+FFFD < U+1F600 as it is not in UTF-16.
        (TypeKind::String, text("Z"), text("a")),
        (TypeKind::String, text("\u{fffd}"), text("\u{1f600}")),
        (TypeKind::Date, Date(20_089), Date(20_453)),
        (
            TypeKind::Time { precision: 3 },
            Time(36_000_000),
            Time(52_200_000),
        ),
        (
            timestamp,
            at(1_736_510_400_000, 0),
            at(1_767_225_599_000, 0),
        ),
        (TypeKind::TimestampLtz { precision: 9 }, at(5, 1), at(5, 2)),
    ];
    for (kind, lower, higher) in ordered {
        for inputs in [
            [lower.clone(), higher.clone()],
            [higher.clone(), lower.clone()],
        ] {
            check("max", kind.clone(), &inputs, higher.clone());
            check("min", kind.clone(), &inputs, lower.clone());
        }
        check(
            "max",
            kind.clone(),
            &[Null, lower.clone(), Null],
            lower.clone(),
        );
        check("min", kind, &[Null, higher.clone(), Null], higher);
    }
    let prices = [Decimal(9_999), Decimal(7_999), Decimal(8_999)];
    check("min", DECIMAL_10_2, &prices, Decimal(7_999));
}

#[test]
fn floats_are_in_total_order() {
    let zeros = [Double(-0.0), Double(0.0)];
    check("max", TypeKind::Double, &zeros, Double(0.0));
    check("min", TypeKind::Double, &zeros, Double(-0.0));
    for nan in [f32::NAN, -f32::NAN] {
        let inputs = [Float(f32::INFINITY), Float(nan)];
        check("max", TypeKind::Float, &inputs, Float(nan));
        check("min", TypeKind::Float, &inputs, Float(f32::INFINITY));
        let inputs = [Float(nan), Float(1.0)];
        check("max", TypeKind::Float, &inputs, Float(nan));
        check("min", TypeKind::Float, &inputs, Float(1.0));
    }
}

#[test]
fn a_tie_of_extremes_keeps_the_old_maximum_and_takes_the_new_minimum() {
    // NaN of either sign are alike, but can be told apart.
    let tie = |name: &str| {
        let merged = fold(
            &function(name, TypeKind::Double),
            &[Double(f64::NAN), Double(-f64::NAN)],
        );
        let Double(value) = merged else {
            panic!("not a double");
        };
        value.is_sign_negative()
    };
    assert!(!tie("max"));
    assert!(tie("min"));
}

#[test]
fn af10_af11_last_value_takes_null_too() {
    let states = [text("online"), text("offline"), Null];
    check("last_value", TypeKind::String, &states, Null);
    let names = [text("first"), text("second"), text("third")];
    check("last_value", TypeKind::String, &names, text("third"));
    let flags = [Boolean(true), Boolean(false), Boolean(true)];
    check("last_value", TypeKind::Boolean, &flags, Boolean(true));
}

#[test]
fn af12_last_value_ignore_nulls() {
    let mails = [text("user@example.com"), Null, text("new@example.com")];
    check(
        "last_value_ignore_nulls",
        TypeKind::String,
        &mails,
        text("new@example.com"),
    );
    let phones = [text("123-456"), text("789-012"), Null];
    check(
        "last_value_ignore_nulls",
        TypeKind::String,
        &phones,
        text("789-012"),
    );
}

#[test]
fn af13_af14_af15_first_values_are_the_first_that_are_not_null() {
    for name in ["first_value", "first_value_ignore_nulls"] {
        check(
            name,
            TypeKind::String,
            &[text("ProductA"), text("ProductB")],
            text("ProductA"),
        );
        check(name, TypeKind::Int, &[Int(10), Int(20)], Int(10));
        check(
            name,
            TypeKind::String,
            &[Null, text("x"), text("y")],
            text("x"),
        );
        check(name, TypeKind::String, &[text("x"), Null], text("x"));
    }
}

#[test]
fn af16_af17_booleans() {
    let cases = [
        (Boolean(true), Boolean(true), true, true),
        (Boolean(true), Boolean(false), false, true),
        (Boolean(false), Boolean(false), false, false),
        (Null, Boolean(true), true, true),
        (Null, Boolean(false), false, false),
        (Boolean(true), Null, true, true),
    ];
    for (a, b, and, or) in cases {
        check(
            "bool_and",
            TypeKind::Boolean,
            &[a.clone(), b.clone()],
            Boolean(and),
        );
        check("bool_or", TypeKind::Boolean, &[a, b], Boolean(or));
    }
}

#[test]
fn af18_af19_af20_af21_lists() {
    let fruit = [text("apple"), text("banana"), text("cherry")];
    check(
        "listagg",
        TypeKind::String,
        &fruit,
        text("apple,banana,cherry"),
    );
    check("listagg", TypeKind::String, &[text("a"), Null], text("a"));
    check(
        "listagg",
        TypeKind::String,
        &[text("a"), Null, text("b")],
        text("a,b"),
    );
    check(
        "listagg",
        TypeKind::String,
        &[text(""), text("")],
        text(","),
    );
    let with = |name: &str, delimiter: &str| {
        let function = AggFunction::new(name).with_parameter("delimiter", delimiter);
        with_function(function, TypeKind::String)
    };
    assert_eq!(
        fold(&with("listagg", "|"), &[text("a"), text("b"), text("c")]),
        text("a|b|c")
    );
    let tags = [text("developer"), text("java"), text("flink")];
    assert_eq!(
        fold(&with("string_agg", ";"), &tags),
        text("developer;java;flink")
    );
}

#[test]
fn bitmaps_are_united() {
    fn bytes(bytes: &'static [u8]) -> Value<'static> {
        Value::from(bytes)
    }
    // {1, 2} and {1, 2, 3}; the tests of the formats have more.
    const TWO: &[u8] = b":0\0\0\x01\0\0\0\0\0\x01\0\x10\0\0\0\x01\0\x02\0";
    const THREE: &[u8] = b":0\0\0\x01\0\0\0\0\0\x02\0\x10\0\0\0\x01\0\x02\0\x03\0";
    check(
        "rbm32",
        TypeKind::Bytes,
        &[bytes(TWO), bytes(THREE)],
        bytes(THREE),
    );
    check(
        "rbm64",
        TypeKind::Bytes,
        &[bytes(&[0]), bytes(&[0])],
        bytes(&[0]),
    );
    // A first bitmap is taken as it is, whatever it is.
    check(
        "rbm32",
        TypeKind::Bytes,
        &[Null, bytes(b"x"), Null],
        bytes(b"x"),
    );
    check(
        "rbm64",
        TypeKind::Bytes,
        &[Null, bytes(b"x"), Null],
        bytes(b"x"),
    );
    for name in ["rbm32", "rbm64"] {
        let function = function(name, TypeKind::Bytes);
        assert!(function.apply(&bytes(b"x"), &bytes(TWO)).is_err());
        assert!(function.apply(&bytes(&[0]), &bytes(b"")).is_err());
    }
}

#[test]
fn af25_names_are_read_in_any_spelling() {
    for name in ["LAST-VALUE", "last_value", "Last_Value"] {
        check(name, TypeKind::Int, &[Int(1), Null], Null);
    }
}

#[test]
fn a_function_that_nobody_knows_is_the_default() {
    check("median", TypeKind::Int, &[Int(1), Int(3), Null], Int(3));
}

#[test]
fn a_function_for_another_type_is_an_error() {
    for name in [
        "sum", "product", "max", "min", "listagg", "bool_and", "bool_or", "rbm32", "rbm64",
    ] {
        let row = Value::Row(Vec::new());
        assert!(
            function(name, TypeKind::Row(Vec::new()))
                .apply(&row, &row)
                .is_err(),
            "{name}"
        );
        assert!(
            function(name, TypeKind::Int).apply(&row, &Int(1)).is_err(),
            "{name}"
        );
    }
}
