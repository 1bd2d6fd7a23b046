//! Names of databases, tables and partition values (tables.md §1.1).

use crate::{ErrorCode, TableError, TablePath};

/// Longest name, in UTF-16 units. The character set makes them bytes.
pub const MAX_NAME_LENGTH: usize = 200;

/// Prefix of names that the system keeps for itself.
pub const RESERVED_PREFIX: &str = "__";

/// What a reserved name would belong to; only changes the text of the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Reserved {
    Databases,
    Tables,
    Partitions,
}

/// Why a name cannot name anything, or `None` for a good one.
///
/// Holds for databases, tables and partition values alike. Reserved names are
/// good here: see [`reserved_name_reason`].
pub fn invalid_name_reason(name: &str) -> Option<String> {
    if name.is_empty() {
        return Some("the empty string is not allowed".to_owned());
    }
    if name == "." || name == ".." {
        return Some(format!("'{name}' is not allowed"));
    }
    if name.encode_utf16().take(MAX_NAME_LENGTH + 1).count() > MAX_NAME_LENGTH {
        return Some(format!(
            "the length of '{}' is longer than the max allowed length {MAX_NAME_LENGTH}",
            shortened(name)
        ));
    }
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if !name.bytes().all(legal) {
        return Some(format!(
            "'{name}' contains one or more characters other than ASCII alphanumerics, '_' and '-'"
        ));
    }
    None
}

/// Why a name is not free for users, or `None` if it is.
pub fn reserved_name_reason(name: &str, of: Reserved) -> Option<String> {
    let of = match of {
        Reserved::Databases => "databases",
        Reserved::Tables => "tables",
        Reserved::Partitions => "partitions",
    };
    name.starts_with(RESERVED_PREFIX).then(|| {
        format!(
            "'{RESERVED_PREFIX}' is not allowed as prefix, since it is reserved for internal {of}"
        )
    })
}

/// Checks the name of a database to create, or of a path that names one.
///
/// # Errors
/// [`ErrorCode::InvalidDatabase`].
pub fn check_database_name(name: &str) -> Result<(), TableError> {
    let reason =
        invalid_name_reason(name).or_else(|| reserved_name_reason(name, Reserved::Databases));
    match reason {
        None => Ok(()),
        Some(reason) => Err(TableError::new(
            ErrorCode::InvalidDatabase,
            format!("Database name {} is invalid: {reason}", shortened(name)),
        )),
    }
}

/// Checks the name of a table to create or to alter.
///
/// # Errors
/// [`ErrorCode::InvalidTable`].
pub fn check_table_name(name: &str) -> Result<(), TableError> {
    let reason = invalid_name_reason(name).or_else(|| reserved_name_reason(name, Reserved::Tables));
    match reason {
        None => Ok(()),
        Some(reason) => Err(TableError::invalid_table(format!(
            "Table name {} is invalid: {reason}",
            shortened(name)
        ))),
    }
}

/// Checks both parts of a path, the database first.
///
/// # Errors
/// [`ErrorCode::InvalidDatabase`] or [`ErrorCode::InvalidTable`].
pub fn check_table_path(path: &TablePath) -> Result<(), TableError> {
    check_database_name(&path.database)?;
    check_table_name(&path.table)
}

/// A name as it may appear in a message: a hostile one is as long as a frame.
fn shortened(name: &str) -> String {
    match name.char_indices().nth(MAX_NAME_LENGTH + 1) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_refused(result: Result<(), TableError>, code: ErrorCode, fragment: &str) {
        let error = result.expect_err("must be refused");
        assert_eq!(error.code, code, "{error}");
        assert!(error.message.contains(fragment), "{error}");
    }

    #[test]
    fn plain_names_are_good() {
        for name in ["a", "A-b_9", "-", "_", "_x", "0", "fluss", &"x".repeat(200)] {
            assert_eq!(check_database_name(name), Ok(()), "{name}");
            assert_eq!(check_table_name(name), Ok(()), "{name}");
        }
    }

    #[test]
    fn vf1_a_database_name_with_stars_is_refused() {
        check_refused(
            check_database_name("*invalid_db*"),
            ErrorCode::InvalidDatabase,
            "Database name *invalid_db* is invalid: '*invalid_db*' contains one or more characters other than",
        );
    }

    #[test]
    fn vf2_a_bad_table_name_is_an_invalid_table() {
        check_refused(
            check_table_path(&TablePath::new("db", "=invalid_table!")),
            ErrorCode::InvalidTable,
            "Table name =invalid_table! is invalid:",
        );
    }

    #[test]
    fn vf3_the_database_is_checked_before_the_table() {
        check_refused(
            check_table_path(&TablePath::new("", "=invalid_table!")),
            ErrorCode::InvalidDatabase,
            "Database name  is invalid: the empty string is not allowed",
        );
    }

    #[test]
    fn vf4_names_of_the_system_are_reserved() {
        check_refused(
            check_database_name("__internal_db"),
            ErrorCode::InvalidDatabase,
            "'__' is not allowed as prefix, since it is reserved for internal databases",
        );
        check_refused(
            check_table_name("__internal_table"),
            ErrorCode::InvalidTable,
            "'__' is not allowed as prefix, since it is reserved for internal tables",
        );
        assert_eq!(invalid_name_reason("__historical__"), None);
    }

    #[test]
    fn each_kind_of_bad_name_has_its_reason() {
        let long = "x".repeat(201);
        for (name, reason) in [
            ("", "the empty string is not allowed"),
            (".", "'.' is not allowed"),
            ("..", "'..' is not allowed"),
            (
                "a b",
                "contains one or more characters other than ASCII alphanumerics, '_' and '-'",
            ),
            ("a.b", "contains one or more characters"),
            ("ä", "contains one or more characters"),
            ("t$changelog", "contains one or more characters"),
            (long.as_str(), "is longer than the max allowed length 200"),
        ] {
            let found = invalid_name_reason(name).unwrap_or_else(|| panic!("{name} is refused"));
            assert!(found.contains(reason), "{name}: {found}");
            check_refused(
                check_database_name(name),
                ErrorCode::InvalidDatabase,
                reason,
            );
            check_refused(check_table_name(name), ErrorCode::InvalidTable, reason);
        }
    }

    #[test]
    fn a_hostile_name_does_not_fill_the_message() {
        let error = check_table_name(&"é".repeat(1 << 20)).expect_err("too long");
        assert!(error.message.len() < 2_000, "{} bytes", error.message.len());
    }
}
