//! The nearest known name to a misspelled one, for "did you mean".

/// The candidate that takes the fewest edits (insert, delete, replace, swap) to
/// reach from `name`, or `None` when all are too far to be a likely typing error.
///
/// Up to a third of the name may be wrong, at most 8 edits: beyond that a guess
/// confuses more than it helps. Of equally near candidates the first one wins.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Distances cost len × len; a key of megabytes is not a typing error.
    const LONGEST_NAME: usize = 200;
    if name.len() > LONGEST_NAME {
        return None;
    }
    let limit = (name.chars().count() / 3).clamp(1, 8);
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(name, candidate), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    const KEYS: [&str; 3] = ["data.dir", "data.dirs", "log.segment.file-size"];

    #[test]
    fn a_missing_letter_finds_the_key() {
        assert_eq!(
            nearest("log.segment.filesize", KEYS),
            Some("log.segment.file-size")
        );
    }

    #[test]
    fn swapped_letters_are_one_edit() {
        assert_eq!(nearest("dtaa.dir", KEYS), Some("data.dir"));
    }

    #[test]
    fn something_else_altogether_has_no_nearest_key() {
        assert_eq!(nearest("spark.executor.memory", KEYS), None);
        assert_eq!(nearest("", KEYS), None);
        assert_eq!(nearest(&"x".repeat(10_000), KEYS), None);
    }
}
