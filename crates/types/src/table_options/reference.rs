//! The reference page of table options.

use std::fmt::Write;

use super::{OptionKind, TABLE_OPTIONS, TableOption};

/// All options as a Markdown table, in the order of [`TABLE_OPTIONS`].
pub fn markdown_reference() -> String {
    let mut page = String::from(
        "| Option | Values | Default | Alterable | Meaning |\n|---|---|---|---|---|\n",
    );
    for option in TABLE_OPTIONS {
        let TableOption {
            key,
            default,
            alterable,
            help,
            ..
        } = option;
        let default = default.map_or_else(|| "–".to_owned(), |text| format!("`{text}`"));
        let alterable = if *alterable { "yes" } else { "no" };
        writeln!(
            page,
            "| `{key}` | {} | {default} | {alterable} | {help} |",
            values(option.kind)
        )
        .expect("writing to a String does not fail");
    }
    page
}

/// What an option takes, as a cell.
fn values(kind: OptionKind) -> String {
    match kind {
        OptionKind::Bool => "`true`, `false`".to_owned(),
        OptionKind::Int => "integer".to_owned(),
        OptionKind::Long => "integer (64 bits)".to_owned(),
        OptionKind::Duration => "duration".to_owned(),
        OptionKind::Text => "text".to_owned(),
        OptionKind::OneOf(texts) => texts
            .iter()
            .map(|text| format!("`{text}`"))
            .collect::<Vec<_>>()
            .join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_a_row_of_five_cells_for_every_option() {
        let page = markdown_reference();
        let rows: Vec<&str> = page.lines().skip(2).collect();
        assert_eq!(rows.len(), TABLE_OPTIONS.len());
        for (row, option) in rows.iter().zip(TABLE_OPTIONS) {
            assert_eq!(row.matches(" | ").count(), 4, "{row}");
            assert!(row.starts_with(&format!("| `{}` |", option.key)), "{row}");
        }
        assert!(page.contains(
            "| `table.log.ttl` | duration | `7d` | yes | How long log and changelog are kept; for ever if 0. |"
        ));
    }
}
