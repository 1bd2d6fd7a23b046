//! Any text that a person or a client may send is read or refused, never a panic.

use std::collections::BTreeMap;

use mainstem_types::auto_partition::{AutoPartitionUnit, TimeFormat, TimeZone};
use mainstem_types::config::{
    ConfigChange, DynamicConfig, Entries, ServerConfig, parse_server_yaml,
};
use mainstem_types::jaas::Users;
use mainstem_types::{duration, listeners, memory_size, server_options};
use proptest::prelude::*;

/// Texts around the syntax of configuration values.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[0-9 a-zµ]{0,12}",
        "[A-Z]{0,3}(://)?[a-z.:\\[\\]0-9]{0,12}(:[0-9]{0,6})?",
        "PlainLoginModule( required)?[ a-z_=\"';\\\\]{0,40}",
        "[yMdHQq'\\[\\]{}#/_-]{0,16}",
        "(GMT|UTC)?[+-]?[0-9:]{0,12}",
        "\\$\\{[a-z:$\\{\\}]{0,12}",
        "\\PC{0,40}",
    ]
}

fn any_key() -> impl Strategy<Value = String> {
    let known: Vec<String> = server_options::all()
        .map(|option| option.key.to_owned())
        .collect();
    prop_oneof![proptest::sample::select(known), text()]
}

proptest! {
    #[test]
    fn single_values(text in text()) {
        if let Ok(value) = duration::parse(&text) {
            prop_assert_eq!(duration::parse(&duration::format(value)), Ok(value));
        }
        if let Ok(bytes) = memory_size::parse(&text) {
            prop_assert_eq!(memory_size::parse(&memory_size::format(bytes)), Ok(bytes));
        }
        if let Ok(endpoints) = listeners::parse_endpoints(&text) {
            let written: Vec<String> = endpoints.iter().map(ToString::to_string).collect();
            prop_assert_eq!(listeners::parse_endpoints(&written.join(",")), Ok(endpoints));
        }
        let _ = Users::from_jaas(&text);
        let _ = Users::from_credentials(&text);
        let _ = TimeZone::parse(&text).local(0);
        for unit in [AutoPartitionUnit::Hour, AutoPartitionUnit::Quarter, AutoPartitionUnit::Year] {
            if let Ok(format) = TimeFormat::parse(unit, &text) {
                let now = TimeZone::GMT.local(1_731_323_460_000).expect("a moment of the calendar");
                let value = format.format(&now);
                prop_assert!(format.parse_value(&value).is_some(), "{text} {value}");
            }
        }
    }

    #[test]
    fn whole_files(lines in proptest::collection::vec((any_key(), text()), 0..8)) {
        let file: Vec<String> =
            lines.iter().map(|(key, value)| format!("{key}: {value}\n")).collect();
        let mut entries = parse_server_yaml(&file.concat()).entries;
        entries.resolve_markers(|_| Ok(String::new())).expect("every marker has a value");
        if let Err(error) = ServerConfig::from_entries(entries) {
            prop_assert!(!error.to_string().is_empty());
        }
    }

    #[test]
    fn changes_that_are_accepted_leave_a_configuration_that_starts(
        changes in proptest::collection::vec((any_key(), proptest::option::of(text()), -1..5i32), 0..4)
    ) {
        let changes: Vec<ConfigChange> = changes
            .into_iter()
            .map(|(key, value, operation)| ConfigChange { key, value, operation })
            .collect();
        let initial = Entries::default();
        let rules = DynamicConfig { initial: &initial, lake_formats: &["iceberg"] };
        if let Ok(next) = rules.apply(&BTreeMap::new(), &changes) {
            prop_assert!(ServerConfig::from_entries(rules.effective(&next)).is_ok());
            prop_assert_eq!(rules.load(&next), (next.clone(), Vec::new()));
        }
    }
}
