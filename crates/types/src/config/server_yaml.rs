//! The file `server.yaml`. It only looks like YAML (cluster.md §9.1): one
//! `key: value` per line, split at the first colon and space; everything from the
//! first `#` on is a comment, inside values too; no quoting; the last one wins.

use crate::config::Entries;

/// A file longer than this is not a configuration.
const MAX_FILE_BYTES: usize = 4 << 20;

/// What a file holds, and what is odd about it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParsedFile {
    /// Its settings.
    pub entries: Entries,
    /// Sentences with line numbers. They never quote a value.
    pub warnings: Vec<String>,
}

/// Reads the text of a file. Nothing in it is an error: odd lines are skipped
/// with a warning, as the reference does.
pub fn parse_server_yaml(text: &str) -> ParsedFile {
    let mut parsed = ParsedFile::default();
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.len() > MAX_FILE_BYTES {
        parsed
            .warnings
            .push("the file is longer than 4 MiB and was ignored".to_owned());
        return parsed;
    }
    for (index, line) in text.lines().enumerate() {
        if let Some(warning) = parse_line(line, &mut parsed.entries) {
            parsed
                .warnings
                .push(format!("line {}: {warning}", index + 1));
        }
    }
    parsed
}

fn parse_line(line: &str, entries: &mut Entries) -> Option<String> {
    let (content, comment) = match line.split_once('#') {
        Some((content, comment)) => (content, Some(comment)),
        None => (line, None),
    };
    let trimmed = content.trim();
    if trimmed.is_empty() || (trimmed == "---" && comment.is_none()) {
        return None;
    }
    let (key, value) = match trimmed.split_once(": ") {
        Some((key, value)) => (key.trim(), value.trim()),
        // The trim above took the blank away that follows the colon.
        None => match trimmed.strip_suffix(':') {
            Some(key) => (key.trim(), ""),
            None => return Some("it is not of the form 'key: value' and was skipped".to_owned()),
        },
    };
    if key.is_empty() {
        return Some("it has no key and was skipped".to_owned());
    }
    // Of our own keys an empty value means something: the port is off.
    if value.is_empty() && !key.starts_with("mainstem.") {
        return Some(format!("'{}' has no value and was skipped", shown_key(key)));
    }
    let twice = entries.set(key, value);
    if comment.is_some() && is_cut(content, value) {
        return Some(format!(
            "the '#' begins a comment, so the value of '{}' ends before it; values cannot contain '#'",
            shown_key(key)
        ));
    }
    if is_quoted(value) {
        return Some(format!(
            "the quotation marks are part of the value of '{}'; leave them out",
            shown_key(key)
        ));
    }
    twice.then(|| format!("'{}' was set before; the last one counts", shown_key(key)))
}

/// Whether a `#` took something off a value, rather than began a comment that was
/// meant as one: it follows the value directly, or stands between quotation marks.
fn is_cut(content: &str, value: &str) -> bool {
    let attached = !value.is_empty() && !content.ends_with(char::is_whitespace);
    attached || value.matches('"').count() % 2 == 1
}

fn is_quoted(value: &str) -> bool {
    value.len() > 1
        && ['"', '\'']
            .iter()
            .any(|quote| value.starts_with(*quote) && value.ends_with(*quote))
}

fn shown_key(key: &str) -> String {
    key.chars().take(100).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_warned(line: &str, fragment: &str) -> ParsedFile {
        let parsed = parse_server_yaml(line);
        assert_eq!(parsed.warnings.len(), 1, "{line}: {:?}", parsed.warnings);
        assert!(
            parsed.warnings[0].contains(fragment),
            "{}",
            parsed.warnings[0]
        );
        parsed
    }

    #[test]
    fn the_sample_file_of_the_reference_is_read() {
        let parsed = parse_server_yaml(
            "# licence\n\n---\nzookeeper.address: localhost:2181\r\n  default.bucket.number:   1  \n\
             bind.listeners: FLUSS://localhost:9123   # where to listen\n#data.dir: /x\n",
        );
        assert_eq!(parsed.warnings, Vec::<String>::new());
        assert_eq!(
            parsed.entries.iter().collect::<Vec<_>>(),
            [
                ("bind.listeners", "FLUSS://localhost:9123"),
                ("default.bucket.number", "1"),
                ("zookeeper.address", "localhost:2181"),
            ]
        );
    }

    #[test]
    fn a_value_may_contain_colons() {
        let parsed = parse_server_yaml("remote.data.dir: s3://bucket/a: b");
        assert_eq!(
            parsed.entries.get("remote.data.dir"),
            Some("s3://bucket/a: b")
        );
    }

    #[test]
    fn of_equal_keys_the_last_one_wins_with_a_warning() {
        let parsed = check_warned(
            "max.bucket.num: 1\nmax.bucket.num: 2",
            "line 2: 'max.bucket.num' was",
        );
        assert_eq!(parsed.entries.get("max.bucket.num"), Some("2"));
    }

    #[test]
    fn a_value_cut_by_a_number_sign_is_warned_about() {
        let parsed = check_warned("data.dir: /data#1", "line 1: the '#' begins a comment");
        assert_eq!(parsed.entries.get("data.dir"), Some("/data"));
        check_warned(
            "security.sasl.plain.jaas.config: PlainLoginModule required user_a=\"hush #1\";",
            "'security.sasl.plain.jaas.config' ends before it",
        );
    }

    #[test]
    fn lines_that_do_not_split_are_skipped_with_a_warning() {
        for (line, fragment) in [
            ("data.dir:/data", "not of the form"),
            ("data.dir = /data", "not of the form"),
            ("data.dir:", "has no value"),
            ("data.dir:   # later", "has no value"),
            (": x", "no key"),
            ("-", "not of the form"),
        ] {
            let parsed = check_warned(line, fragment);
            assert_eq!(parsed.entries.iter().count(), 0, "{line}");
        }
    }

    #[test]
    fn quotation_marks_stay_in_the_value_with_a_warning() {
        let parsed = check_warned("data.dir: \"/data\"", "quotation marks are part");
        assert_eq!(parsed.entries.get("data.dir"), Some("\"/data\""));
    }

    #[test]
    fn an_empty_value_of_our_own_keys_counts() {
        let parsed = parse_server_yaml("mainstem.http.listen:\n");
        assert_eq!(parsed.warnings, Vec::<String>::new());
        assert_eq!(parsed.entries.get("mainstem.http.listen"), Some(""));
    }

    #[test]
    fn warnings_never_quote_a_value() {
        let parsed = parse_server_yaml("security.sasl.plain.credentials: carol:hush#er\nhush\n");
        assert_eq!(parsed.warnings.len(), 2);
        assert!(
            parsed
                .warnings
                .iter()
                .all(|warning| !warning.contains("hush"))
        );
    }

    #[test]
    fn a_byte_order_mark_is_not_part_of_the_first_key() {
        let parsed = parse_server_yaml("\u{feff}data.dir: /data");
        assert_eq!(parsed.entries.get("data.dir"), Some("/data"));
    }
}
