//! Markers in values that stand for something kept elsewhere:
//! `${provider:[path:]key}` (cluster.md §9.1 "Indirection").

/// One marker. Reading what it stands for is the business of the caller: this
/// crate does no I/O.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marker {
    /// `env`, `file` or `directory`.
    pub provider: String,
    /// File or directory.
    pub path: Option<String>,
    /// Variable, property or file name.
    pub key: String,
}

impl Marker {
    /// Whether a value has a marker of any provider. Such values are refused in
    /// dynamic changes.
    pub fn is_in(value: &str) -> bool {
        find(value).is_some()
    }

    /// Replaces the markers of `enabled` providers; `None` if there is none.
    pub(super) fn replace_all(
        value: &str,
        enabled: &[String],
        lookup: &mut impl FnMut(&Self) -> Result<String, String>,
    ) -> Result<Option<String>, String> {
        let mut result = String::new();
        let mut rest = value;
        let mut found = false;
        while let Some((start, end, marker)) = find(rest) {
            result.push_str(&rest[..start]);
            if enabled.contains(&marker.provider) {
                result.push_str(&lookup(&marker)?);
                found = true;
            } else {
                result.push_str(&rest[start..end]);
            }
            rest = &rest[end..];
        }
        result.push_str(rest);
        Ok(found.then_some(result))
    }
}

/// The first marker with its byte range. Every byte is looked at a fixed number
/// of times, however many brackets there are.
fn find(text: &str) -> Option<(usize, usize, Marker)> {
    let mut from = 0;
    while let Some(length) = text[from..].find('}') {
        let close = from + length;
        // The last "${" before the bracket: an earlier one is plain text.
        if let Some(open) = text[from..close].rfind("${") {
            let start = from + open;
            if let Some(marker) = parse(&text[start + 2..close]) {
                return Some((start, close + 1, marker));
            }
        }
        from = close + 1;
    }
    None
}

fn parse(inside: &str) -> Option<Marker> {
    let (provider, rest) = inside.split_once(':')?;
    if provider.is_empty() {
        return None;
    }
    let (path, key) = match rest.rsplit_once(':') {
        Some((path, key)) => (Some(path.to_owned()), key),
        None => (None, rest),
    };
    Some(Marker {
        provider: provider.to_owned(),
        path,
        key: key.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marker(provider: &str, path: Option<&str>, key: &str) -> Marker {
        Marker {
            provider: provider.into(),
            path: path.map(Into::into),
            key: key.into(),
        }
    }

    #[test]
    fn markers_are_found_with_and_without_a_path() {
        assert_eq!(find("a${env:X}b"), Some((1, 9, marker("env", None, "X"))));
        assert_eq!(
            find("${file:/a/b.properties:k}").map(|found| found.2),
            Some(marker("file", Some("/a/b.properties"), "k"))
        );
        assert_eq!(find("${${env:X}").map(|found| found.0), Some(2));
    }

    #[test]
    fn what_only_looks_like_a_marker_is_text() {
        for text in [
            "", "$", "${", "${}", "${x}", "${:x}", "{env:X}", "${env:X", "$${",
        ] {
            assert!(!Marker::is_in(text), "{text}");
        }
    }
}
