//! Messages as lines of `path = value`, to be compared field by field.

use std::fmt::Debug;

/// The fields that are present, in order: `tables_resp.0.buckets_resp.1.bucket_id`
/// and what it holds, as `Debug` shows it. Works on the derived `Debug` of the
/// generated messages, which all have.
///
/// # Panics
/// If the text has another form.
pub fn describe(message: &impl Debug) -> Vec<(String, String)> {
    let text = format!("{message:#?}");
    let mut lines = Vec::new();
    let mut open: Vec<Open> = Vec::new();
    for line in text.lines().map(|line| line.trim().trim_end_matches(',')) {
        match line {
            ")" | "]" | "}" => {
                open.pop().expect("something is open");
                continue;
            }
            _ => {}
        }
        let (name, value) = match line.split_once(": ") {
            // A text may hold a colon as well; names are plain words.
            Some((name, value)) if is_name(name) => (Some(name.to_owned()), value),
            _ => (None, line),
        };
        let name = name.or_else(|| open.last_mut().and_then(Open::next_index));
        match value {
            "None" | "[]" => {}
            "Some(" => open.push(Open {
                name,
                elements: None,
            }),
            "[" => open.push(Open {
                name,
                elements: Some(0),
            }),
            _ if value.ends_with(" {") || value.ends_with('(') => {
                open.push(Open {
                    name,
                    elements: None,
                });
            }
            _ => {
                let names = open.iter().filter_map(|open| open.name.clone()).chain(name);
                lines.push((names.collect::<Vec<_>>().join("."), value.to_owned()));
            }
        }
    }
    lines
}

struct Open {
    name: Option<String>,
    elements: Option<usize>,
}

impl Open {
    fn next_index(&mut self) -> Option<String> {
        let index = self.elements.as_mut()?;
        *index += 1;
        Some((*index - 1).to_string())
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'#')
}

#[cfg(test)]
mod tests {
    use mainstem_protocol::messages as pb;

    use super::*;

    #[test]
    fn present_fields_have_a_path_and_absent_ones_have_none() {
        let entry = |bucket, records: Option<&'static [u8]>| pb::PbFetchLogRespForBucket {
            bucket_id: Some(bucket),
            error_message: Some("where: [here".to_owned()),
            records: records.map(Into::into),
            ..pb::PbFetchLogRespForBucket::default()
        };
        let message = pb::FetchLogResponse {
            tables_resp: vec![pb::PbFetchLogRespForTable {
                table_id: Some(-5),
                buckets_resp: vec![entry(0, None), entry(1, Some(b"]"))],
            }],
        };
        let lines = describe(&message);
        let lines: Vec<_> = lines
            .iter()
            .map(|(path, value)| (&path[..], &value[..]))
            .collect();
        assert_eq!(
            lines,
            [
                ("tables_resp.0.table_id", "-5"),
                ("tables_resp.0.buckets_resp.0.bucket_id", "0"),
                (
                    "tables_resp.0.buckets_resp.0.error_message",
                    "\"where: [here\""
                ),
                ("tables_resp.0.buckets_resp.1.bucket_id", "1"),
                (
                    "tables_resp.0.buckets_resp.1.error_message",
                    "\"where: [here\""
                ),
                ("tables_resp.0.buckets_resp.1.records", "b\"]\""),
            ]
        );
    }
}
